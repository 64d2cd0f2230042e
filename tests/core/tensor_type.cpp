#include "tenet/core/tensor_type.hpp"

#include <catch2/catch.hpp>
#include <vector>

namespace {

using namespace tenet;

// Types and values say the same.
static_assert(Image<3, 28, 20>::size == 3 * 28 * 20 && Image<3, 28, 20>::rank == 3 && Image<3, 28, 20>::batched);
static_assert(Scalar::size == 1 && Scalar::rank == 0 && !Scalar::batched);
static_assert(Tokens<7>::info == TensorInfo{DType::int32, true, 1, {7}});
static_assert(std::is_same_v<TypeOf<Fixed<2, 3>::info>, Fixed<2, 3>>);
static_assert(std::is_same_v<TypeOf<BatchedInt<>::info>, BatchedInt<>>);
static_assert(std::is_same_v<TypeOf<with_extents(Batched<4, 5>::info, {20})>, Batched<20>>);
static_assert(std::is_same_v<TypeOf<with_extent(Batched<4, 5>::info, 1, 6)>, Batched<4, 6>>);
static_assert(std::is_same_v<TypeOf<with_last_extent(Batched<4>::info, 2)>, Batched<4, 2>>);
static_assert(std::is_same_v<TypeOf<without_last_extent(Batched<4, 2>::info)>, Batched<4>>);
static_assert(std::is_same_v<TypeOf<with_dtype(Tokens<7>::info, DType::float32)>, Batched<7>>);
static_assert(is_tensor_type<Scalar> && !is_tensor_type<int>);

static_assert(greatest_common_divisor(12, 18) == 6 && greatest_common_divisor(0, 5) == 5);

/// All shapes of rank 0 … 3 with extents 1, 2, 3 and 5, with and without a batch.
std::vector<TensorInfo> all_shapes() {
  constexpr int extents[] = {1, 2, 3, 5};
  std::vector<TensorInfo> result;
  for (const bool batched : {false, true})
    for (int rank = 0; rank <= 3; ++rank) {
      int count = 1;
      for (int i = 0; i < rank; ++i) count *= 4;
      for (int number = 0; number < count; ++number) {
        TensorInfo info{DType::float32, batched, rank, {}};
        int rest = number;
        for (int i = 0; i < rank; ++i, rest /= 4) info.extents[i] = extents[rest % 4];
        result.push_back(info);
      }
    }
  return result;
}

/// Where element i of a result reads an operand, by the definition of broadcasting: the operand's extents are aligned
/// at the right, and an extent of 1 or a missing one stands for any number of equal elements.
long by_definition(const TensorInfo& to, const TensorInfo& from, long i) {
  long index[max_rank]{}, offset = 0, stride = 1;
  for (int d = to.rank - 1; d >= 0; --d) {
    index[d] = i % to.extents[d];
    i /= to.extents[d];  // what is left in the end is the sample
  }
  for (int k = from.rank - 1; k >= 0; --k) {
    if (from.extents[k] != 1) offset += stride * index[k + to.rank - from.rank];
    stride *= from.extents[k];
  }
  return from.batched ? offset + i * stride : offset;
}

long elements(const TensorInfo& info, long batch) { return info.size() * (info.batched ? batch : 1); }

bool fits(const TensorInfo& to, const TensorInfo& from) { return broadcast(to, from) == to; }

std::string text(const TensorInfo& info) {
  std::string result = info.batched ? "batch" : "";
  for (int i = 0; i < info.rank; ++i) result += " " + std::to_string(info.extents[i]);
  return result;
}

/// Whether reading element (i / inner) % count is right for every element and some batches.
bool reads_right(const TensorInfo& to, const TensorInfo& from, long inner, long count, bool full) {
  for (const long batch : {1L, 2L, 3L}) {
    const long all = count * (from.batched ? batch : 1);
    for (long i = 0; i < elements(to, batch); ++i)
      if ((full ? i : i / inner % all) != by_definition(to, from, i)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("an access reads what broadcasting says", "[tensor_type]") {
  const auto shapes = all_shapes();
  int pairs = 0, irregular = 0;
  for (const TensorInfo& to : shapes)
    for (const TensorInfo& from : shapes) {
      if (!fits(to, from)) continue;
      const Access access = access_of(to, from);
      ++pairs;
      INFO(text(from) << " read by " << text(to));
      if (access.regular) {
        if (!reads_right(to, from, access.inner, access.count, access.full)) FAIL("inner " << access.inner);
      } else {
        ++irregular;  // right to say so: no other distance of neighbours would do
        bool possible = false;
        for (long inner = 1; inner <= to.size(); ++inner)
          possible = possible || reads_right(to, from, inner, from.size(), false);
        if (possible) FAIL("it is regular");
      }
    }
  CHECK(pairs > 1500);
  CHECK(irregular > 50);
}

TEST_CASE("within a block an access is contiguous or uniform", "[tensor_type]") {
  int wrong = 0, blocks = 0;
  const long batch = 3;
  const auto shapes = all_shapes();
  for (const TensorInfo& to : shapes)
    for (const TensorInfo& from : shapes) {
      if (!fits(to, from)) continue;
      const Access access = access_of(to, from);
      const long total = elements(to, batch), block = access.block() > 0 ? access.block() : total;
      if (!access.regular) continue;
      for (long first = 0; first < total; first += block, ++blocks)
        for (long i = first + 1; i < first + block && i < total; ++i) {
          const long step = by_definition(to, from, i) - by_definition(to, from, i - 1);
          if (step != (access.uniform() ? 0 : 1)) ++wrong;
        }
    }
  CHECK(wrong == 0);
  CHECK(blocks > 10000);
}

TEST_CASE("forms of accesses", "[tensor_type]") {
  constexpr auto image = Batched<4, 2, 3>::info;
  CHECK(access_of(image, image) == Access{1, 24, true, true, true});
  CHECK(access_of(image, Fixed<4, 2, 3>::info) == Access{1, 24, false, false, true});  // one for every sample
  CHECK(access_of(image, Fixed<4, 1, 1>::info) == Access{6, 4, false, false, true});   // channels
  CHECK(access_of(image, Batched<4, 1, 1>::info) == Access{6, 4, true, false, true});  // channels of each sample
  CHECK(access_of(image, Fixed<3>::info) == Access{1, 3, false, false, true});         // a row
  CHECK(access_of(image, Batched<1, 1, 3>::info) == Access{1, 3, true, false, false, false, 8});  // of each sample
  CHECK(access_of(image, Batched<1, 2, 3>::info).repeats == 4);
  CHECK(access_of(image, Batched<4, 1, 3>::info).repeats == 1);  // not one after the other
  CHECK(access_of(image, Batched<1, 2, 1>::info).repeats == 1);  // its numbers do not stand side by side
  CHECK(access_of(image, Fixed<1, 1, 3>::info).repeats == 1);    // regular
  CHECK(access_of(image, Scalar::info) == Access{24, 1, false, false, true});
  CHECK(access_of(image, Batched<>::info) == Access{24, 1, true, false, true});  // one number a sample
  CHECK_FALSE(access_of(image, Fixed<4, 1, 3>::info).regular);
  CHECK_FALSE(access_of(image, Batched<1, 1, 3>::info).regular);
}

TEST_CASE("broadcasting is commutative and associative, and a scalar changes nothing", "[tensor_type]") {
  const auto shapes = all_shapes();
  int wrong = 0, misfits = 0;
  for (const TensorInfo& a : shapes) {
    if (!(broadcast(a, a) == a) || !(broadcast(a, Scalar::info) == a)) ++wrong;
    for (const TensorInfo& b : shapes) {
      const TensorInfo both = broadcast(a, b);
      // The definition: aligned at the right, two extents fit if they are equal or one is 1.
      bool fit = true;
      for (int i = 1; i <= a.rank && i <= b.rank; ++i) {
        const int left = a.extents[a.rank - i], right = b.extents[b.rank - i];
        fit = fit && (left == right || left == 1 || right == 1);
      }
      if (fit != (both.rank >= 0)) ++wrong;
      if (!fit) {
        ++misfits;
        continue;
      }
      if (!(both == broadcast(b, a)) || both.batched != (a.batched || b.batched)) ++wrong;
      if (!fits(both, a) || !fits(both, b)) ++wrong;
      for (std::size_t k = 0; k < shapes.size(); k += 7) {
        const TensorInfo right = broadcast(b, shapes[k]);
        if (right.rank < 0) continue;
        const TensorInfo left_first = broadcast(both, shapes[k]), right_first = broadcast(a, right);
        if ((left_first.rank < 0) != (right_first.rank < 0)) ++wrong;
        if (left_first.rank >= 0 && !(left_first == right_first)) ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(misfits > 1000);
}
