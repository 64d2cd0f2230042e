// A small language model: a transformer that learns, character by character, sentences of a grammar, and writes some.
// test: --steps 30 --characters 100
#include <cmath>
#include <tenet/tenet.hpp>

#include "common/json.hpp"
#include "common/options.hpp"
#include "common/sentences.hpp"
#include "models/gpt.hpp"

using namespace tenet;

constexpr int length = 48, width = 64;

/// Two layers; the network itself is in models/gpt.hpp.
using Network = Gpt<sentences::vocabulary, length, width, 2>;

/// Pieces of a text: the target is the input, one character further.
TensorDataset<std::int32_t, std::int32_t> pieces(long count) {
  const std::string text = sentences::generate(static_cast<std::size_t>(count * length + 1), 1);
  std::vector<std::int32_t> codes, next;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count * length); ++i) {
    codes.push_back(sentences::code(text[i]));
    next.push_back(sentences::code(text[i + 1]));
  }
  return {codes, {length}, next, {length}};
}

/// Writes `count` characters, each drawn from the model's probabilities given up to `length` before it.
std::string write(auto& trainer, int count) {
  Random random(7);
  std::string text = ". ";
  for (int i = 0; i < count; ++i) {
    const int seen = std::min(static_cast<int>(text.size()), length);
    std::int32_t codes[length]{};  // those behind `seen` do not matter: attention is causal
    for (int k = 0; k < seen; ++k) codes[k] = sentences::code(text[text.size() - static_cast<std::size_t>(seen - k)]);
    const float* scores = trainer.predict(codes, 1).data() + (seen - 1) * sentences::vocabulary;
    float probability[sentences::vocabulary], sum = 0;
    for (int c = 0; c < sentences::vocabulary; ++c) sum += probability[c] = std::exp(scores[c]);
    float point = random.uniform() * sum;
    int chosen = 0;
    while (chosen + 1 < sentences::vocabulary && (point -= probability[chosen]) > 0) ++chosen;
    text += sentences::character(chosen);
  }
  return text.substr(2);
}

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains a small transformer on sentences of a grammar and prints what it writes.",
                  {{"steps", "1500", "training steps"},
                   {"batch-size", "32", "pieces of 48 characters in a step"},
                   {"characters", "600", "characters to write"}});
  const int steps = options.integer("steps"), batch_size = options.integer("batch-size");
  std::vector<double> losses;
  FitOptions fit;
  fit.schedule = CosineAnnealingLR{.warmup_steps = 20};
  fit.on_step = [&](long, const StepResult& result) { losses.push_back(result.loss); };

  Trainer<Network, CrossEntropy, ClipGradNorm<AdamW>, Tokens<length>> trainer{{{.learning_rate = 3e-3f}, 1.0f}};
  trainer.fit(DataLoader{pieces(long{steps} * batch_size), {.batch_size = batch_size, .shuffle = true}}, fit);

  const std::string text = write(trainer, options.integer("characters"));
  int whole = 0, right = 0;
  for (std::size_t begin = 0, end; (end = text.find('.', begin)) != std::string::npos; begin = end + 2, ++whole)
    right += sentences::follows_grammar(std::string_view(text).substr(begin, end - begin));
  std::printf("%s\n\nloss %.3f, after %d steps %.3f nats a character; %d of %d sentences follow the grammar\n",
              text.c_str(), losses.front(), steps, losses.back(), right, whole);
  options.write_json(Json().add("losses", losses).add("sentences", whole).add("right", right).add("text", text).text());
  return losses.back() < losses.front() ? 0 : 1;
}
