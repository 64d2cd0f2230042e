#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

/// Curves over logarithmic axes, as an SVG picture of panels beside each other and a legend. Enough for examples.
class Plot {
 public:
  struct Curve {
    std::vector<double> x, y;
    bool is_reference = false;  ///< dashed and grey, without points
  };
  struct Panel {
    std::string title, x_label, y_label;
    bool y_is_logarithmic = true;      ///< else from 0 to 1
    std::vector<std::string> names{};  ///< of the curves; curves of one name in several panels look the same
    std::vector<Curve> curves{};
  };

  Plot(std::string title, std::string subtitle) : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

  Panel& add(Panel panel) { return panels_.emplace_back(std::move(panel)); }

  std::string svg() {
    names_.clear();
    for (const Panel& panel : panels_)
      for (std::size_t c = 0; c < panel.curves.size(); ++c)
        if (std::find(names_.begin(), names_.end(), panel.names[c]) == names_.end()) names_.push_back(panel.names[c]);
    const double width = left + static_cast<double>(panels_.size()) * (panel_width + gap) + legend_width;
    const double height = top + panel_height + bottom;
    text_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " + number(height) +
            "\" width=\"" + number(width) + "\" height=\"" + number(height) +
            "\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#222\">\n"
            "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
    put_text(left - 84, 26, title_, "font-size=\"17\" font-weight=\"bold\"");
    put_text(left - 84, 46, subtitle_, "fill=\"#555\"");
    for (std::size_t p = 0; p < panels_.size(); ++p)
      draw(panels_[p], left + static_cast<double>(p) * (panel_width + gap));
    draw_legend(left + static_cast<double>(panels_.size()) * (panel_width + gap) - 40);
    return text_ + "</svg>\n";
  }

 private:
  static constexpr double left = 100, top = 90, bottom = 62, gap = 88, panel_width = 400, panel_height = 330,
                          legend_width = 220;
  struct Axis {
    double least, most;
    bool is_logarithmic;
    double begin, length;
    double at(double value) const {
      const auto scaled = [&](double v) { return is_logarithmic ? std::log10(v) : v; };
      return begin + length * (scaled(value) - scaled(least)) / (scaled(most) - scaled(least));
    }
  };

  static std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.5g", value);
    return text;
  }
  /// 16,384, 10 M and the like.
  static std::string tick(double value) {
    char text[32];
    if (value >= 1e9)
      std::snprintf(text, sizeof text, "%g G", value / 1e9);
    else if (value >= 1e6)
      std::snprintf(text, sizeof text, "%g M", value / 1e6);
    else if (value >= 1000)
      std::snprintf(text, sizeof text, "%ld,%03ld", static_cast<long>(value) / 1000, static_cast<long>(value) % 1000);
    else
      std::snprintf(text, sizeof text, "%g", value);
    return text;
  }
  static std::string escaped(const std::string& words) {
    std::string result;
    for (const char c : words) result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
    return result;
  }
  void put_text(double x, double y, const std::string& words, const std::string& style) {
    text_ += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + style + ">" + escaped(words) + "</text>\n";
  }
  void put_line(double x1, double y1, double x2, double y2, const std::string& style) {
    text_ += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) +
             "\" " + style + "/>\n";
  }

  std::size_t place(const std::string& name) const {
    return static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  }
  /// Colours that are told apart by colour-blind readers, too (Okabe and Ito, and a brown).
  std::string colour(std::size_t i) const {
    static const char* const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                          "#E69F00", "#56B4E9", "#000000", "#8C564B"};
    return colours[i % std::size(colours)];
  }
  /// A point of the i-th curve's form.
  void put_point(std::size_t i, double x, double y) {
    const std::string style = " fill=\"" + colour(i) + "\"/>\n";
    const double r = 3.6;
    const auto polygon = [&](std::vector<std::pair<double, double>> corners) {
      text_ += "<polygon points=\"";
      for (const auto& [dx, dy] : corners) text_ += number(x + r * dx) + "," + number(y + r * dy) + " ";
      text_ += "\"" + style;
    };
    switch (i % 4) {
      case 0:
        text_ += "<circle cx=\"" + number(x) + "\" cy=\"" + number(y) + "\" r=\"" + number(r) + "\"" + style;
        break;
      case 1:
        polygon({{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}});
        break;
      case 2:
        polygon({{0, -1.2}, {1.1, 0.9}, {-1.1, 0.9}});
        break;
      default:
        polygon({{0, -1.3}, {1.3, 0}, {0, 1.3}, {-1.3, 0}});
    }
  }
  std::string line_style(std::size_t i, bool is_reference) const {
    return is_reference ? "fill=\"none\" stroke=\"#888\" stroke-width=\"1.6\" stroke-dasharray=\"6 4\""
                        : "fill=\"none\" stroke=\"" + colour(i) + "\" stroke-width=\"2\" stroke-linejoin=\"round\"";
  }

  void draw(const Panel& panel, double x0) {
    double least_x = 1e300, most_x = 0, least_y = 1e300, most_y = 0;
    for (const Curve& curve : panel.curves)
      for (std::size_t i = 0; i < curve.x.size(); ++i) {
        least_x = std::min(least_x, curve.x[i]);
        most_x = std::max(most_x, curve.x[i]);
        least_y = std::min(least_y, curve.y[i]);
        most_y = std::max(most_y, curve.y[i]);
      }
    Axis x{least_x, std::max(most_x, 2 * least_x), true, x0, panel_width},
        y{0, 1.05, false, top + panel_height, -panel_height};
    if (panel.y_is_logarithmic)
      y = {std::pow(10, std::floor(std::log10(least_y))), std::pow(10, std::ceil(std::log10(most_y) + 1e-9)), true,
           top + panel_height, -panel_height};

    put_text(x0, top - 12, panel.title, "font-weight=\"bold\"");
    const std::string grid = "stroke=\"#ddd\"", of_tick = "fill=\"#444\" font-size=\"12\" text-anchor=";
    for (double value = least_x; value <= most_x * 1.001; value *= 4) {
      put_line(x.at(value), top, x.at(value), top + panel_height, grid);
      put_text(x.at(value), top + panel_height + 18, tick(value), of_tick + "\"middle\"");
    }
    const auto y_tick = [&](double value) {
      put_line(x0, y.at(value), x0 + panel_width, y.at(value), grid);
      put_text(x0 - 8, y.at(value) + 4, tick(value), of_tick + "\"end\"");
    };
    if (panel.y_is_logarithmic)
      for (double value = y.least; value <= y.most * 1.001; value *= 10) y_tick(value);
    else
      for (int fifth = 0; fifth <= 5; ++fifth) y_tick(0.2 * fifth);
    put_line(x0, top + panel_height, x0 + panel_width, top + panel_height, "stroke=\"#444\"");
    put_line(x0, top, x0, top + panel_height, "stroke=\"#444\"");
    put_text(x0 + panel_width / 2, top + panel_height + 44, panel.x_label, "text-anchor=\"middle\"");
    const double aside = x0 - (panel.y_is_logarithmic ? 78 : 46);
    const std::string middle = number(aside) + " " + number(top + panel_height / 2);
    put_text(aside, top + panel_height / 2, panel.y_label,
             "text-anchor=\"middle\" transform=\"rotate(-90 " + middle + ")\"");

    for (std::size_t c = 0; c < panel.curves.size(); ++c) {
      const Curve& curve = panel.curves[c];
      const std::size_t i = place(panel.names[c]);
      text_ += "<polyline points=\"";
      for (std::size_t k = 0; k < curve.x.size(); ++k)
        text_ += number(x.at(curve.x[k])) + "," + number(y.at(curve.y[k])) + " ";
      text_ += "\" " + line_style(i, curve.is_reference) + "/>\n";
      for (std::size_t k = 0; k < curve.x.size() && !curve.is_reference; ++k)
        put_point(i, x.at(curve.x[k]), y.at(curve.y[k]));
    }
  }

  void draw_legend(double x0) {
    double y = top + 10;
    for (std::size_t i = 0; i < names_.size(); ++i, y += 24) {
      bool is_reference = false;
      for (const Panel& panel : panels_)
        for (std::size_t c = 0; c < panel.curves.size(); ++c)
          if (panel.names[c] == names_[i]) is_reference = panel.curves[c].is_reference;
      put_line(x0, y, x0 + 34, y, line_style(i, is_reference));
      if (!is_reference) put_point(i, x0 + 17, y);
      put_text(x0 + 44, y + 4, names_[i], "");
    }
  }

  std::string title_, subtitle_, text_;
  std::vector<Panel> panels_;
  std::vector<std::string> names_;
};
