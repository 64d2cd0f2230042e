#pragma once

#include <source_location>
#include <tenet/core/fixed_string.hpp>
#include <tenet/core/tensor_type.hpp>
#include <type_traits>
#include <utility>

/// Mistakes in networks, and the sentences that name them. While a network is traced its first mistake is recorded and
/// the trace goes on with a harmless shape; then one static_assert says all: layer, expected and given shape, remedy.
///
/// A class that the user names, such as `Trainer<…>`, is an alias: of the class itself, or of the mistake found. So the
/// user's line is what instantiates the mistake, and no compiler has a chain of instantiations to print.
namespace tenet {

enum class Mistake : unsigned char {
  none,
  broadcast,
  channels,
  features,
  kernel,
  rank,
  matmul,
  reshape,
  repeat,
  forward,
  option,
  sparse,
  explained,  ///< a class has said it already: nothing more is to be said
};

struct MistakeRecord {
  Mistake kind = Mistake::none;
  int slot = -1;  ///< parameter, buffer or marker of the layer, or of the last layer passed
  int line = 0;   ///< of the call in the user's `forward`, 0 where a container made the call
  TensorInfo expected{}, found{};
};

namespace mistake {

/// The path of the layer, or of the last layer passed before the mistake: "layer1.0.conv2".
template <FixedString path>
struct Layer {
  static constexpr bool fits = false;
};
template <int... Extents>
struct Expected;
template <int... Extents>
struct Found;
/// The line of the call in the user's `forward`; none where a container made the call.
template <int... number>
struct Line;
template <class Loss>
struct With {
  static constexpr bool fits = false;
};

/// What a mistake is instead of: its base, whose members take whatever the user's code gives them, so that nothing
/// follows the one message.
struct Nothing {};

template <class...>
inline constexpr bool never = false;

// One struct a mistake, so that every compiler prints the sentence next to the numbers.
template <class Layer, class Expected, class Found, class Line, class Instead = Nothing>
struct ShapesDiffer : Instead {
  using Instead::Instead;
  static_assert(Layer::fits,
                "element-wise operation: the two shapes do not fit together; both branches of a residual sum "
                "need one shape: give the shortcut a 1x1 Conv2d with the channels and stride of the body");
};
template <class Layer, class Expected, class Found, class Line, class Instead = Nothing>
struct ChannelsDiffer : Instead {
  using Instead::Instead;
  static_assert(Layer::fits,
                "the layer expects another number of channels than its input has: change the layer's first "
                "template argument to the channels found, or the layer before it");
};
template <class Layer, class Expected, class Found, class Line, class Instead = Nothing>
struct FeaturesDiffer : Instead {
  using Instead::Instead;
  static_assert(Layer::fits,
                "the layer expects another number of features than its input has: change the layer's first "
                "template argument to the last extent found (after Flatten: channels x height x width)");
};
template <class Layer, class Expected, class Found, class Line, class Instead = Nothing>
struct KernelLargerThanInput : Instead {
  using Instead::Instead;
  static_assert(Layer::fits,
                "the window of the convolution or pooling is larger than its padded input: use a smaller "
                "kernel, more Padding, or fewer layers that shrink the image");
};
template <class Layer, class Expected, class Found, class Line, class Instead = Nothing>
struct RankDiffers : Instead {
  using Instead::Instead;
  static_assert(Layer::fits,
                "the layer expects an input with another number of extents (the batch is not counted): an "
                "image is channels x height x width; put Flatten before a Linear");
};
template <class Layer, class Expected, class Found, class Line, class Instead = Nothing>
struct InnerExtentsDiffer : Instead {
  using Instead::Instead;
  static_assert(Layer::fits,
                "matmul(lhs, rhs): the columns of lhs, shown as expected, and the rows of rhs, shown as "
                "found, have to be equal: transpose one of them, or change its extents");
};
template <class Layer, class Expected, class Found, class Line, class Instead = Nothing>
struct SizesDiffer : Instead {
  using Instead::Instead;
  static_assert(Layer::fits,
                "reshape: the new extents, shown as expected, hold another number of elements than the "
                "tensor found: their product has to stay the same (the batch is not counted)");
};
template <class Layer, class Expected, class Found, class Line, class Instead = Nothing>
struct ShapeNotKept : Instead {
  using Instead::Instead;
  static_assert(Layer::fits,
                "Repeat<Count, Module>: a module that is repeated has to give the shape that it takes: put "
                "the part that changes the shape before the Repeat");
};
template <class Layer, class Found, class Line, class Instead = Nothing>
struct ForwardNotCallable : Instead {
  using Instead::Instead;
  static_assert(Layer::fits,
                "forward of the network, or of a module behind this layer, cannot be called with the tensor "
                "found: write it as constexpr auto forward(auto x) const { return ...; }, const included");
};
template <class Layer, class Instead = Nothing>
struct OptionUnknown : Instead {
  using Instead::Instead;
  static_assert(Layer::fits,
                "the layer does not know one of its options: Conv2d knows Stride<n>, Padding<n>, Bias<false>; "
                "poolings Stride<n>, Padding<n>; Linear Bias<false>; MultiheadAttention Causal<true>; "
                "Embedding Sparse");
};
template <class Layer, class Instead = Nothing>
struct SparseTableMisused : Instead {
  using Instead::Instead;
  static_assert(Layer::fits,
                "Embedding<..., Sparse>: the tokens have to be the network's input, and one call of the layer has to "
                "be the only use of its table: leave out Sparse, or use the table once");
};
template <class With, class Found, class Instead = Nothing>
struct LossDoesNotFit : Instead {
  using Instead::Instead;
  static_assert(With::fits,
                "the loss does not fit the network's output: CrossEntropy takes one row of scores (batch, "
                "classes), or (batch, length, classes): end the network with Flatten and Linear<..., classes>");
};
template <class Instead, class... Devices>
struct DevicesDiffer : Instead {
  static_assert(never<Devices...>,
                "tensors of two devices meet in one operation: copy one of them to the other's device first, a + "
                "net.tensor(b), where net is the Imperative that made a");
};
template <class Instead, class Device, class... Found>
struct NumbersOfAnotherDevice : Instead {
  static_assert(
      never<Device>,
      "inputs or targets lie in the memory of another logical device: copy them to an array of the device that "
      "works with them first, copy_async(found, array), with DeviceArray<T, Device> array(size)");
};
template <class Instead, class Device>
struct NumbersOfNoDevice : Instead {
  static_assert(never<Device>, "OnDevice: this trainer's device works in the host's memory: give it a pointer");
};
/// The element types of inputs and targets, and those that are needed.
template <class Instead, class Found, class Expected>
struct ElementsDiffer : Instead {
  static_assert(never<Found>,
                "the element types of inputs or targets do not fit: inputs are float, or std::int32_t for Tokens; "
                "targets are std::int32_t labels for CrossEntropy, float for MeanSquaredError: convert them");
};
template <class Module, class Instead = Nothing>
struct ForwardMissing : Instead {
  using Instead::Instead;
  static_assert(never<Module>,
                "the network has no forward: give it one, constexpr auto forward(auto x) const { return "
                "...; }, or derive it from Sequential<...>");
};
template <class Module, class Instead = Nothing>
struct ForwardNotConstant : Instead {
  using Instead::Instead;
  static_assert(never<Module>,
                "forward cannot run at compile time: write constexpr auto forward(auto x) const { return "
                "...; } in the network and all its modules, and use only constexpr functions in it");
};
template <class Module, class Instead = Nothing>
struct NetworkIncomplete : Instead {
  using Instead::Instead;
  static_assert(never<Module>, "the network is declared, but not defined: define its struct before this line");
};
template <class Module, class Instead = Nothing>
struct NotMadeAtCompileTime : Instead {
  using Instead::Instead;
  static_assert(never<Module>,
                "the network cannot be made at compile time: its members have to be layers, modules, "
                "Parameters or constexpr numbers, and it needs no constructor of its own");
};
template <class Instead = Nothing>
struct InputMissing : Instead {
  using Instead::Instead;
  static_assert(never<Instead>,
                "the input's shape is missing: add Image<channels, height, width>, "
                "Features<count> or Tokens<length> to the template arguments");
};
template <class Argument, class Instead = Nothing>
struct ArgumentUnknown : Instead {
  using Instead::Instead;
  static_assert(
      never<Argument>,
      "a template argument is neither an input shape (Image<...>, Features<...>, Tokens<...>) nor a policy (Cpu<...>, "
      "UpdateInBackward, BFloat16, MemoryBound<...>, OneSampleAlways, DirectConvolution, DataParallel<k>, Ring)");
};
/// Bytes a sample that were asked for, and the least that was found.
template <long>
struct Bytes;
template <long>
struct Least;
template <class Asked, class Found, class Instead = Nothing>
struct MemoryBoundTooSmall : Instead {
  using Instead::Instead;
  static_assert(
      never<Asked>,
      "MemoryBound<bytes>: the training step takes more bytes a sample even when it computes values again; the "
      "least that was found stands in this type as Least<bytes>");
};
template <class Policy, class Instead = Nothing>
struct SynchronisationOfOne : Instead {
  using Instead::Instead;
  static_assert(never<Policy>,
                "a synchronisation, but only one device: add a strategy such as DataParallel<2>, or leave it out");
};
template <class Policy, class Strategy, class Instead = Nothing>
struct SynchronisationOfParts : Instead {
  using Instead::Instead;
  static_assert(
      never<Policy>,
      "a synchronisation, but the devices of InterOpParallel compute each gradient once: leave it out, or take "
      "DataParallel");
};
template <class Shards, class Strategy, class Instead = Nothing>
struct ShardsOfParts : Instead {
  using Instead::Instead;
  static_assert(never<Shards>,
                "the devices of InterOpParallel run each batch whole, and give the bits of one device: leave "
                "MicroBatches or Reproducible out, or take DataParallel");
};
template <class OneSample, class Instead = Nothing>
struct TimelineOfOneSample : Instead {
  using Instead::Instead;
  static_assert(never<OneSample>,
                "Timeline records step by step, but a program for a batch of one is a single function: leave "
                "OneSampleAlways or OneSampleIfSmall out");
};
template <class Strategy, class Instead = Nothing>
struct DirectBetweenRanks : Instead {
  using Instead::Instead;
  static_assert(never<Strategy>,
                "Direct uses the memory of other replicas, which ranks cannot: take AllReduce, Ring or "
                "ParameterServer for Distributed");
};
template <class Policy, class Instead = Nothing>
struct BucketsAreNotSent : Instead {
  using Instead::Instead;
  static_assert(
      never<Policy>,
      "BucketBytes, but this synchronisation sends no buckets of gradients: take AllReduce or Ring, or leave the size "
      "out");
};
template <class Policy, class Strategy, class Instead = Nothing>
struct ServerOfReplicas : Instead {
  using Instead::Instead;
  static_assert(never<Policy>,
                "replicas of DataParallel meet after each step, and one of them is the server: take "
                "ParameterServer<OnRank<i>> of one of them or ParameterServer<Sharded>, or Distributed");
};
template <class Strategy, class Instead = Nothing>
struct InsideOfRank : Instead {
  using Instead::Instead;
  static_assert(never<Strategy>, "Distributed<world, inside>: a rank is Single, or the replicas of a DataParallel");
};
template <class Strategy, class Instead = Nothing>
struct NoCommonMemory : Instead {
  using Instead::Instead;
  static_assert(never<Strategy>,
                "Hogwild needs parameters that all read and write: between processes of one machine take "
                "Distributed<SharedMemory>, between machines ParameterServer<Sharded, Asynchronous>");
};
template <class Policy, class Instead = Nothing>
struct RanksOnly : Instead {
  using Instead::Instead;
  static_assert(never<Policy>,
                "LocalSgd, ShardedOptimizer and Hierarchical are for ranks; replicas of DataParallel share a machine, "
                "parameters and optimizer state anyway: take Distributed");
};
template <class Policy, class Instead = Nothing>
struct LevelUnknown : Instead {
  using Instead::Instead;
  static_assert(never<Policy>,
                "Hierarchical<Inner, Outer> says how ranks of one machine add up gradients, and how machines do: "
                "each of the two is AllReduce or Ring, or Outer LocalSgd<steps>");
};
template <class Strategy, class Instead = Nothing>
struct NotReproducible : Instead {
  using Instead::Instead;
  static_assert(
      never<Strategy>,
      "Reproducible goes with DataParallel of 1, 2, 4 or 8 replicas or with Distributed, and with Direct, AllReduce or "
      "a ParameterServer of replicas: rings, and between ranks Hierarchical, ShardedOptimizer, LocalSgd and servers, "
      "give numbers that depend on how many workers there are, and where");
};
template <class Shards, class Instead = Nothing>
struct ShardsOfHogwild : Instead {
  using Instead::Instead;
  static_assert(never<Shards>,
                "Hogwild<samples> cuts a batch by itself, and updates after each part: leave MicroBatches or "
                "Reproducible out");
};
template <class Synchronisation, class Instead = Nothing>
struct SyncBatchNormWith : Instead {
  using Instead::Instead;
  static_assert(
      never<Synchronisation>,
      "SyncBatchNorm needs workers that take each step together, which ranks with ParameterServer, LocalSgd or "
      "Hogwild do not: take AllReduce, Ring or ShardedOptimizer, or leave it out");
};
template <class Shards, class Instead = Nothing>
struct ShardsOfSyncBatchNorm : Instead {
  using Instead::Instead;
  static_assert(never<Shards>,
                "SyncBatchNorm takes statistics of the whole batch, which MicroBatches and Reproducible run in pieces "
                "one after the other: leave one of the two out");
};
template <class Strategy, class Instead = Nothing>
struct StrategyWithoutGradients : Instead {
  using Instead::Instead;
  static_assert(
      never<Strategy>,
      "UpdateInBackward keeps no gradients that replicas or micro-batches could add up: leave it out, or them");
};
template <class Policy, class Instead = Nothing>
struct OwnMemoryWith : Instead {
  using Instead::Instead;
  static_assert(
      never<Policy>,
      "devices with memories of their own, as Cuda<i>, go with DataParallel<k> or Distributed<World>, and "
      "with AllReduce, Ring, a bulk-synchronous ParameterServer (OnCpu: of ranks with one device each, or of one "
      "process), or, between ranks, ShardedOptimizer, LocalSgd<steps> or, with one device each, Hierarchical or any "
      "ParameterServer: leave this policy out, or take Cpu<>");
};
template <class Optimizer, class Instead = Nothing>
struct UpdateOfParts : Instead {
  using Instead::Instead;
  static_assert(never<Optimizer>,
                "the optimizer needs all gradients before one parameter is updated, as ClipGradNorm does, and "
                "UpdateInBackward, ShardedOptimizer, ParameterServer between ranks or GPUs, Hogwild and "
                "Embedding<..., Sparse> do not bring them together: take another optimizer, or AllReduce or Ring");
};
template <class Policy, class Instead = Nothing>
struct SparseTablesWith : Instead {
  using Instead::Instead;
  static_assert(never<Policy>,
                "Embedding<..., Sparse> is trained on one Cpu, or by Hogwild<samples> with DataParallel<k>, and not "
                "with UpdateInBackward: leave this policy out, or Sparse");
};
template <class Argument, class Instead = Nothing>
struct ArgumentGivenTwice : Instead {
  using Instead::Instead;
  static_assert(never<Argument>, "an input shape, or a policy of one kind, is given twice: leave one of them out");
};
template <class Argument, class Instead = Nothing>
struct NotALoss : Instead {
  using Instead::Instead;
  static_assert(never<Argument>,
                "the second template argument is no loss: the order is "
                "Trainer<Net, Loss, Optimizer, ...>, losses are CrossEntropy, MeanSquaredError");
};
template <class Argument, class Instead = Nothing>
struct NotAnOptimizer : Instead {
  using Instead::Instead;
  static_assert(never<Argument>,
                "the third template argument is no optimizer: the order is "
                "Trainer<Net, Loss, Optimizer, ...>, optimizers are Sgd, Adam, AdamW");
};

template <template <int...> class Tag, TensorInfo info>
struct Tagged {
  template <int... I>
  static auto make(std::integer_sequence<int, I...>) -> Tag<info.extents[I]...>*;
  using type = std::remove_pointer_t<decltype(make(std::make_integer_sequence<int, info.rank>{}))>;
};

/// The struct that explains a mistake, not instantiated; void where there is none.
template <Mistake kind, FixedString path, TensorInfo expected, TensorInfo found, int line, class Instead = Nothing>
constexpr auto explanation() {
  using L = Layer<path>;
  using E = typename Tagged<Expected, expected>::type;
  using F = typename Tagged<Found, found>::type;
  using N = std::conditional_t<line == 0, Line<>, Line<line>>;
  if constexpr (kind == Mistake::none) return std::type_identity<void>{};
  if constexpr (kind == Mistake::explained) return std::type_identity<Instead>{};
  if constexpr (kind == Mistake::broadcast) return std::type_identity<ShapesDiffer<L, E, F, N, Instead>>{};
  if constexpr (kind == Mistake::channels) return std::type_identity<ChannelsDiffer<L, E, F, N, Instead>>{};
  if constexpr (kind == Mistake::features) return std::type_identity<FeaturesDiffer<L, E, F, N, Instead>>{};
  if constexpr (kind == Mistake::kernel) return std::type_identity<KernelLargerThanInput<L, E, F, N, Instead>>{};
  if constexpr (kind == Mistake::rank) return std::type_identity<RankDiffers<L, E, F, N, Instead>>{};
  if constexpr (kind == Mistake::matmul) return std::type_identity<InnerExtentsDiffer<L, E, F, N, Instead>>{};
  if constexpr (kind == Mistake::reshape) return std::type_identity<SizesDiffer<L, E, F, N, Instead>>{};
  if constexpr (kind == Mistake::repeat) return std::type_identity<ShapeNotKept<L, E, F, N, Instead>>{};
  if constexpr (kind == Mistake::forward) return std::type_identity<ForwardNotCallable<L, F, N, Instead>>{};
  if constexpr (kind == Mistake::option) return std::type_identity<OptionUnknown<L, Instead>>{};
  if constexpr (kind == Mistake::sparse) return std::type_identity<SparseTableMisused<L, Instead>>{};
}

/// Stops the compilation with the sentence of an explanation; true where there is none.
template <class Explanation>
constexpr bool stop() {
  if constexpr (std::is_void_v<Explanation>)
    return true;
  else
    return sizeof(Explanation) > 0;
}

/// Called by an entry point that has found a mistake. In a trace it is recorded, to be explained with the layer's path;
/// on real tensors, where nobody comes after, it is explained at once.
template <Mistake kind, TensorInfo expected, TensorInfo found, class Context>
constexpr void report(Context* context, int slot = -1, int line = 0) {
  if constexpr (Context::records_mistakes)
    context->record(MistakeRecord{kind, slot, line, expected, found});
  else
    static_cast<void>(sizeof(typename decltype(explanation<kind, "forward", expected, found, 0>())::type));
}

}  // namespace mistake

/// The line of a call, taken as a defaulted last parameter of layers and operators that may be misused.
using SourceLine = std::source_location;

}  // namespace tenet
