// The convolutions through oneDNN 2.6 (Debian's libdnnl), by its Winograd algorithm and directly, each in the layouts
// that it chooses itself: rearranging is not timed. The number of threads is that of OMP_NUM_THREADS.
#include <dnnl.hpp>
#include <memory>
#include <optional>
#include <unordered_map>

#include "../serve.hpp"
#include "kernels.hpp"

using dnnl::memory;

namespace {

const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
dnnl::stream stream(engine);

memory::desc standard(const memory::dims& extents) {
  return {extents, memory::data_type::f32, memory::format_tag::abcd};
}
memory::desc any(const memory::dims& extents) { return {extents, memory::data_type::f32, memory::format_tag::any}; }

/// The numbers in the layout that a primitive wants.
memory laid_out(kernels::Floats& values, const memory::dims& extents, const memory::desc& wanted) {
  memory from(standard(extents), engine, values.data()), to(wanted, engine);
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  return to;
}

/// A primitive with its operands.
struct Pass {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
  int result;
  memory::dims extents;  // of the result

  void run() {
    primitive.execute(stream, arguments);
    stream.wait();
  }
  kernels::Floats found() {
    kernels::Floats values(static_cast<std::size_t>(extents[0] * extents[1] * extents[2] * extents[3]));
    memory to(standard(extents), engine, values.data());
    dnnl::reorder(arguments.at(result), to).execute(stream, arguments.at(result), to);
    stream.wait();
    return values;
  }
};

Pass prepare(const tenet::Conv2dGeometry& g, const std::string& pass, dnnl::algorithm algorithm) {
  const memory::dims input{kernels::batch, g.channels, g.height, g.width};
  const memory::dims weight{g.out_channels, g.channels, g.kernel_height, g.kernel_width};
  const memory::dims result{kernels::batch, g.out_channels, g.out_height(), g.out_width()};
  const memory::dims stride{g.stride, g.stride}, padding{g.padding, g.padding};
  kernels::Operands operands(g);
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, algorithm, any(input), any(weight), any(result), stride, padding, padding},
      engine);
  if (pass == "forward")
    return {dnnl::convolution_forward(forward),
            {{DNNL_ARG_SRC, laid_out(operands.input, input, forward.src_desc())},
             {DNNL_ARG_WEIGHTS, laid_out(operands.weight, weight, forward.weights_desc())},
             {DNNL_ARG_DST, memory(forward.dst_desc(), engine)}},
            DNNL_ARG_DST,
            result};
  if (pass == "backward-data") {
    const dnnl::convolution_backward_data::primitive_desc backward(
        {algorithm, any(input), any(weight), any(result), stride, padding, padding}, engine, forward);
    return {dnnl::convolution_backward_data(backward),
            {{DNNL_ARG_DIFF_DST, laid_out(operands.gradient, result, backward.diff_dst_desc())},
             {DNNL_ARG_WEIGHTS, laid_out(operands.weight, weight, backward.weights_desc())},
             {DNNL_ARG_DIFF_SRC, memory(backward.diff_src_desc(), engine)}},
            DNNL_ARG_DIFF_SRC,
            input};
  }
  const dnnl::convolution_backward_weights::primitive_desc backward(
      {algorithm, any(input), any(weight), any(result), stride, padding, padding}, engine, forward);
  return {dnnl::convolution_backward_weights(backward),
          {{DNNL_ARG_SRC, laid_out(operands.input, input, backward.src_desc())},
           {DNNL_ARG_DIFF_DST, laid_out(operands.gradient, result, backward.diff_dst_desc())},
           {DNNL_ARG_DIFF_WEIGHTS, memory(backward.diff_weights_desc(), engine)}},
          DNNL_ARG_DIFF_WEIGHTS,
          weight};
}

}  // namespace

int main() {
  std::vector<Case> cases;
  for (const auto& [name, g] : kernels::convolutions)
    for (const char* const pass : {"forward", "backward-data", "backward-weights"})
      for (const bool winograd : {false, true}) {
        if (winograd && (g.kernel_height != 3 || g.stride != 1 || g.channels == 1)) continue;
        const auto prepared = std::make_shared<std::optional<Pass>>();
        const auto run = [=] { (*prepared)->run(); };
        const auto algorithm = winograd ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct;
        cases.push_back({std::string(name) + " " + pass + (winograd ? " winograd" : " direct"),
                         [=, geometry = g] {
                           *prepared = prepare(geometry, pass, algorithm);
                           run();
                           return kernels::sample(kernels::batch * geometry.flops(), (*prepared)->found());
                         },
                         [=](long calls) { return seconds_of(run, calls); }});
      }
  return serve(cases);
}
