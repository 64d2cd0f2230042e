#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tenet/core/random.hpp>
#include <vector>

/// Text for language models that ships as code: sentences of a small grammar, "these old cats chase a small fox.".
/// Verbs agree with their subject and determiners with their noun, so a model has to look some words back.
namespace sentences {

/// Codes of characters: ' ', '.', 'a' … 'z'.
inline constexpr int vocabulary = 28;
inline char character(int code) { return code == 0 ? ' ' : code == 1 ? '.' : static_cast<char>('a' + code - 2); }
inline int code(char c) { return c == ' ' ? 0 : c == '.' ? 1 : c - 'a' + 2; }

inline const std::vector<std::string> nouns{"cat", "dog", "bird", "horse", "sheep dog", "owl"};
inline const std::vector<std::string> adjectives{"small", "red", "old"};
inline const std::vector<std::string> verbs{"see", "hear", "chase", "help", "find"};
inline const std::vector<std::string> singular{"the", "a certain", "this"};
inline const std::vector<std::string> plural{"the", "two", "these"};

/// "these old cats": the subject or object of a sentence.
inline std::string noun_phrase(tenet::Random& random, bool several) {
  const auto one_of = [&](const std::vector<std::string>& words) {
    return words[random.below(static_cast<std::uint32_t>(words.size()))];
  };
  const std::string adjective = random.below(2) == 0 ? one_of(adjectives) + " " : "";
  return one_of(several ? plural : singular) + " " + adjective + one_of(nouns) + (several ? "s" : "");
}

/// At least `characters` characters of sentences, the same for the same seed.
inline std::string generate(std::size_t characters, std::uint64_t seed) {
  tenet::Random random(seed);
  std::string text;
  while (text.size() < characters) {
    const bool several = random.below(2) == 0;
    text += noun_phrase(random, several) + " " + verbs[random.below(static_cast<std::uint32_t>(verbs.size()))];
    text += several ? " " : "s ";
    text += noun_phrase(random, random.below(2) == 0) + ". ";
  }
  return text;
}

/// Takes one of the words, followed by `ending`, from the front of the text.
inline bool take(std::string_view& text, const std::vector<std::string>& words, const std::string& ending) {
  for (const std::string& word : words)
    if (text.substr(0, word.size() + ending.size()) == word + ending) {
      text.remove_prefix(word.size() + ending.size());
      return true;
    }
  return false;
}

/// Whether a sentence, without the dot, is one of the grammar's.
inline bool follows_grammar(std::string_view sentence) {
  for (const bool several : {false, true})
    for (const bool several_objects : {false, true}) {
      std::string_view rest = sentence;
      const auto phrase = [&](bool many, const std::string& ending) {
        if (!take(rest, many ? plural : singular, " ")) return false;
        take(rest, adjectives, " ");
        return take(rest, nouns, (many ? "s" : "") + ending);
      };
      if (phrase(several, " ") && take(rest, verbs, several ? " " : "s ") && phrase(several_objects, "") &&
          rest.empty())
        return true;
    }
  return false;
}

}  // namespace sentences
