// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// set_product_library. With the fake libraries (tests/device/fake): which calls with which
// descriptions. On a GPU: the values are those of the library's own kernels.

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "layers/layer_support.hpp"
#include "shard/layers/impl/convolution_kernels.hpp"
#include "shard/layers/impl/linear_kernels.hpp"
#include "shard/layers/pointwise/linear.hpp"
#include "shard/layers/product_precision.hpp"
#include "shard/layers/window/conv.hpp"
#include "support/counting.hpp"
#include "support/thrown.hpp"

#include "../../src/layers/vendor.hpp"

namespace shard::testing {
namespace {

/// The settings of products for a scope.
class Scoped {
 public:
  explicit Scoped(ProductLibrary library, ProductPrecision precision = ProductPrecision::float32) {
    set_product_library(library);
    set_product_precision(precision);
  }
  ~Scoped() {
    set_product_library(ProductLibrary::shard);
    set_product_precision(ProductPrecision::float32);
  }
  Scoped(const Scoped&)            = delete;
  Scoped& operator=(const Scoped&) = delete;
};

TEST(Vendor, LibraryIsAskedForAndMustBeThere) {
  EXPECT_EQ(product_library(), ProductLibrary::shard);
  if (!impl::has_vendor_convolutions() && !impl::has_vendor_products()) {
    expect_parts(
        message_thrown_by<ArgumentError>([] { set_product_library(ProductLibrary::vendor); }),
        {"shard::set_product_library", "-DSHARD_ENABLE_CUDNN=ON"});
    EXPECT_EQ(product_library(), ProductLibrary::shard);
    return;
  }
  set_product_library(ProductLibrary::vendor);
  EXPECT_EQ(product_library(), ProductLibrary::vendor);
  set_product_library(ProductLibrary::shard);
  EXPECT_EQ(product_library(), ProductLibrary::shard);
}

#ifdef KOKKOS_ENABLE_CUDA

/// A function of a fake library; null on a GPU.
template <class Function>
Function* fake(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}
std::string cudnn_calls() { return fake<const char*()>("fake_cudnn_calls")(); }
std::string cublaslt_calls() { return fake<const char*()>("fake_cublaslt_calls")(); }
bool is_fake() { return fake<const char*()>("fake_cudnn_calls") != nullptr; }

/// What the fake cuDNN answers, for a scope.
class ScopedCudnn {
 public:
  explicit ScopedCudnn(std::size_t bytes, int of_workspace = 0, int of_convolution = 0) {
    tell(bytes, of_workspace, of_convolution);
  }
  ~ScopedCudnn() { tell(4096, 0, 0); }
  ScopedCudnn(const ScopedCudnn&)            = delete;
  ScopedCudnn& operator=(const ScopedCudnn&) = delete;

 private:
  static void tell(std::size_t bytes, int of_workspace, int of_convolution) {
    fake<void(std::size_t, int, int)>("fake_cudnn_answers")(bytes, of_workspace, of_convolution);
  }
};

std::string address(const void* at) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", at);
  return text;
}
std::string stream() { return " stream " + address(Space().cuda_stream()); }

/// The lines whose first word is this one.
std::string lines(const std::string& text, const std::string& word) {
  std::string found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (text.compare(at, word.size() + 1, word + " ") == 0) found += text.substr(at, end - at + 1);
    at = end + 1;
  }
  return found;
}

/// Device memory of a block: `margin` cells on all sides of the spatial dimensions, of which the
/// block has `halo`.
template <class T>
struct DeviceBlock {
  Kokkos::View<T*, Kokkos::DefaultExecutionSpace::memory_space> memory;
  impl::Block<T> block;

  DeviceBlock(index_t batch, index_t channels, index_t height, index_t width, index_t margin = 0,
              index_t halo = 0) {
    const index_t row = width + 2 * margin, plane = row * (height + 2 * margin);
    memory         = decltype(memory)("block", static_cast<std::size_t>(batch * channels * plane));
    block.batch    = batch;
    block.channels = channels;
    block.begin[1] = block.begin[2] = -halo;
    block.end[1]                    = height + halo;
    block.end[2]                    = width + halo;
    block.stride[4]                 = 1;
    block.stride[3]                 = row;
    block.stride[2]                 = plane;
    block.stride[1]                 = plane;
    block.stride[0]                 = plane * channels;
    block.origin                    = memory.data() + margin * (row + 1);
  }
};

impl::LocalWindow window(int kernel, int stride = 1, index_t offset = 0, index_t groups = 1) {
  impl::LocalWindow w;
  w.kernel[1] = w.kernel[2] = kernel;
  w.stride[1] = w.stride[2] = stride;
  w.offset[1] = w.offset[2] = offset;
  w.groups                  = groups;
  return w;
}

using Kernels    = impl::ConvolutionKernels<Space, float>;
using SumKernels = impl::ConvolutionSumKernels<Space, float>;
using Values     = Kokkos::View<float*, Space::memory_space>;

TEST(Vendor, ALayersConvolutionAndItsGradients) {
  if (!is_fake()) GTEST_SKIP() << "no fake cuDNN";
  using Layer = Conv<Kernel<3, 3>>;
  using X     = ShardedView<float****, Kokkos::LayoutRight, ShardDim<2, Unsharded>>;
  using Y     = X;
  const Scoped vendor(ProductLibrary::vendor);
  const Grid mesh(MPI_COMM_SELF, {1, 1});
  const Layer layer{5, 6};
  const X x("x", mesh, {2, 5, 10, 12}), dx = x.like("dx");
  const Y y("y", mesh, {2, 6, 8, 10}), dy  = y.like("dy");
  const auto p = make_parameters<float>(layer, "p"), g = make_parameters<float>(layer, "g");
  const auto run = [&] {
    layer.apply(Space(), p, y, x);
    layer.pullback(Space(), p, g, dx, dy, x);
  };
  const auto line = [](const char* pass, int algorithm, int beta, const void* first,
                       const void* second, const void* third) {
    return std::string(pass) +
           " fine[2,5,10,12;600,120,12,1] weight[6,5,3,3] coarse[2,6,8,10;480,80,10,1] padding 0,0 "
           "stride 1,1 dilation 1,1 groups 1 math 3 algorithm " +
           std::to_string(algorithm) + " workspace 4096 beta " + std::to_string(beta) + stream() +
           " at " + address(first) + " " + address(second) + " " + address(third) + "\n";
  };
  cudnn_calls();
  run();
  const std::string first = cudnn_calls();
  EXPECT_EQ(lines(first, "forward"),
            line("forward", 1, 1, x.origin(), p.weight.data(), y.origin()));
  EXPECT_EQ(lines(first, "data"), line("data", 1, 0, dx.origin(), p.weight.data(), dy.origin()));
  EXPECT_EQ(lines(first, "weights"),
            line("weights", 1, 1, x.origin(), g.weight.data(), dy.origin()));
  EXPECT_EQ(lines(first, "plan"),
            "plan forward algorithm 1\nplan weights algorithm 1\nplan data algorithm 1\n");
  // plans, the handle and the workspace are kept
  const Counts counts      = count(run);
  const std::string second = cudnn_calls();
  EXPECT_EQ(lines(second, "plan"), "");
  EXPECT_EQ(second.find("create"), std::string::npos);
  EXPECT_EQ(lines(second, "forward") + lines(second, "data") + lines(second, "weights"),
            lines(first, "forward") + lines(first, "data") + lines(first, "weights"));
  EXPECT_EQ(counts.allocations, 0) << counts;
  EXPECT_EQ(cublaslt_calls(), "");
}

TEST(Vendor, BlocksAreDescribedWhereTheyAre) {
  if (!is_fake()) GTEST_SKIP() << "no fake cuDNN";
  const Scoped vendor(ProductLibrary::vendor, ProductPrecision::tf32);
  const DeviceBlock<float> fine(1, 4, 9, 12, 3, 1), coarse(1, 8, 5, 6, 2);
  const Values w("w", 8 * 2 * 9);
  const impl::LocalWindow halved = window(3, 2, -1, 2);
  cudnn_calls();
  // no start: beta 0; the fine box begins at (-1, -1)
  Kernels::correlate(Space(), coarse.block, as_const(fine.block), w.data(), nullptr, halved);
  EXPECT_EQ(
      lines(cudnn_calls(), "forward"),
      "forward fine[1,4,11,13;1080,270,18,1] weight[8,2,3,3] coarse[1,8,5,6;720,90,10,1] "
      "padding 0,0 stride 2,2 dilation 1,1 groups 2 math 1 algorithm 1 workspace 4096 beta 0" +
          stream() + " at " + address(fine.block.origin - 19) + " " + address(w.data()) + " " +
          address(coarse.block.origin) + "\n");
  // the gradient's coarse side is packed; the fine side has columns that get nothing
  Kernels::correlate_transposed(Space(), fine.block, as_const(coarse.block), w.data(), nullptr,
                                halved);
  std::string calls = lines(cudnn_calls(), "data");
  expect_parts(calls, {"fine[1,4,11,13;1080,270,18,1]", "coarse[1,8,5,6;240,30,6,1]", " math 1 ",
                       " beta 1 "});
  EXPECT_EQ(calls.find(address(coarse.block.origin)), std::string::npos) << calls;
  EXPECT_NE(calls.find(address(fine.block.origin - 19)), std::string::npos) << calls;
  Kernels::correlate_weights(Space(), w.data(), as_const(coarse.block), as_const(fine.block),
                             halved);
  calls = lines(cudnn_calls(), "weights");
  expect_parts(calls, {"fine[1,4,11,13;1080,270,18,1]", "coarse[1,8,5,6;240,30,6,1]", " beta 1 "});
  // zeros outside the block: the library's padding
  const DeviceBlock<float> plain(1, 4, 10, 12);
  SumKernels::add_correlation(Space(), coarse.block, as_const(plain.block), w.data(), halved);
  expect_parts(cudnn_calls(), {"forward fine[1,4,10,12;480,120,12,1]", "padding 1,1", " beta 1 "});
}

TEST(Vendor, OthersStayWithShard) {
  if (!is_fake()) GTEST_SKIP() << "no fake cuDNN";
  const DeviceBlock<float> fine(1, 40, 8, 8), coarse(1, 40, 6, 6);
  const DeviceBlock<double> fine_double(1, 40, 8, 8), coarse_double(1, 40, 6, 6);
  const Values w("w", 40 * 40 * 9);
  const Kokkos::View<double*, Space::memory_space> w_double("w", 40 * 40 * 9);
  const auto correlate = [&](const impl::LocalWindow& of) {
    Kernels::correlate(Space(), coarse.block, as_const(fine.block), w.data(), nullptr, of);
    Kernels::correlate_weights(Space(), w.data(), as_const(coarse.block), as_const(fine.block), of);
  };
  cudnn_calls();
  cublaslt_calls();
  correlate(window(3));  // not asked for
  EXPECT_EQ(cudnn_calls(), "");
  {
    const Scoped vendor(ProductLibrary::vendor);
    correlate(window(3, 1, 0, 40));  // depthwise
    const DeviceBlock<float> half(1, 40, 3, 3);
    Kernels::correlate(Space(), half.block, as_const(fine.block), w.data(), nullptr,
                       window(3, 2, 0, 40));
    impl::ConvolutionKernels<Space, double>::correlate(Space(), coarse_double.block,
                                                       as_const(fine_double.block), w_double.data(),
                                                       nullptr, window(3));
    impl::LocalWindow late = window(3);
    late.offset[2]         = 1;  // zeros after the last point only
    correlate(late);
    EXPECT_EQ(cudnn_calls(), "");
  }
  {
    const Scoped vendor(ProductLibrary::vendor, ProductPrecision::bfloat16);
    correlate(window(3));
    EXPECT_EQ(cudnn_calls(), "");
    EXPECT_EQ(cublaslt_calls(), "");
    // 1x1 is a product
    const DeviceBlock<float> same(1, 40, 8, 8);
    Kernels::correlate(Space(), same.block, as_const(fine.block), w.data(), nullptr, window(1));
    expect_parts(cublaslt_calls(),
                 {"product NN a[64x40;64,0] b[40x40;40,0] d[64x40;64,0] batch 1 compute 75 "
                  "epilogue 1 beta 0"});
    EXPECT_EQ(cudnn_calls(), "");
  }
}

TEST(Vendor, WhatCudnnRefusesStaysWithShard) {
  if (!is_fake()) GTEST_SKIP() << "no fake cuDNN";
  const Scoped vendor(ProductLibrary::vendor);
  const DeviceBlock<float> fine(1, 7, 8, 8), coarse(1, 33, 6, 6);
  const Values w("w", 33 * 7 * 9);
  const auto correlate = [&] {
    Kernels::correlate(Space(), coarse.block, as_const(fine.block), w.data(), nullptr, window(3));
  };
  const auto back = [&] {
    Kernels::correlate_transposed(Space(), fine.block, as_const(coarse.block), w.data(), nullptr,
                                  window(3));
  };
  const auto weights = [&] {
    Kernels::correlate_weights(Space(), w.data(), as_const(coarse.block), as_const(fine.block),
                               window(3));
  };
  const auto kernel_of = [](const auto& run) {
    const Counts counts = count(run);
    return counts.kernel_names.empty() ? std::string() : counts.kernel_names.front();
  };
  cudnn_calls();
  {
    const ScopedCudnn not_supported(0, 3002);
    EXPECT_EQ(kernel_of(correlate), "shard::correlate");
    EXPECT_EQ(cudnn_calls(), "plan forward algorithm 1\n");
    EXPECT_EQ(kernel_of(correlate), "shard::correlate");
    EXPECT_EQ(cudnn_calls(), "");  // asked once
  }
  {
    const ScopedCudnn refused_late(4096, 0, 3002);
    const DeviceBlock<float> wider(1, 7, 8, 9), of_wider(1, 33, 6, 7);
    const auto run = [&] {
      Kernels::correlate(Space(), of_wider.block, as_const(wider.block), w.data(), nullptr,
                         window(3));
    };
    EXPECT_EQ(kernel_of(run), "shard::correlate");
    EXPECT_NE(lines(cudnn_calls(), "forward"), "");
    EXPECT_EQ(kernel_of(run), "shard::correlate");
    EXPECT_EQ(cudnn_calls(), "");  // called once
  }
  {
    const ScopedCudnn too_much((std::size_t{512} << 20U) + 1);
    EXPECT_EQ(kernel_of(back), "shard::correlate_transposed");
    EXPECT_EQ(cudnn_calls(), "plan data algorithm 1\n");
  }
  {
    const ScopedCudnn bad_parameter(0, 2000);
    expect_parts(message_thrown_by<Error>(weights),
                 {"cudnnGetConvolution*WorkspaceSize failed", "set_product_library"});
  }
  weights();
  EXPECT_NE(lines(cudnn_calls(), "weights"), "");
  const ScopedCudnn fails(4096, 0, 5000);
  expect_parts(message_thrown_by<Error>(weights),
               {"cudnnConvolutionBackwardFilter failed: CUDNN_STATUS_EXECUTION_FAILED"});
}

TEST(Vendor, ALinearAndItsGradients) {
  if (!is_fake()) GTEST_SKIP() << "no fake cuBLASLt";
  using Tokens = ShardedView<float**, Kokkos::LayoutRight, ShardDim<0, Lat>>;
  const Grid mesh(MPI_COMM_SELF, {1, 1});
  const Linear layer{40, 48};
  const Tokens x("x", mesh, {64, 40}), y("y", mesh, {64, 48});
  const auto p = make_parameters<float>(layer, "p"), g = make_parameters<float>(layer, "g");
  const Tokens dx = x.like("dx"), dy = y.like("dy");
  const auto run = [&] {
    layer.apply(Space(), p, y, x);
    layer.pullback(Space(), p, g, dx, dy, x);
  };
  const auto products = [&](int compute) {
    const auto line = [&](const char* matrices, int epilogue, int beta, const void* a,
                          const void* b, const void* d, const void* bias) {
      return std::string("product ") + matrices + " batch 1 compute " + std::to_string(compute) +
             " epilogue " + std::to_string(epilogue) + " beta " + std::to_string(beta) +
             " workspace 33554432" + stream() + " at " + address(a) + " " + address(b) + " " +
             address(d) + " bias " + address(bias) + "\n";
    };
    return line("TN a[40x48;40,0] b[40x64;40,0] d[48x64;48,0]", 4, 0, p.weight.data(), x.origin(),
                y.origin(), p.bias.data()) +
           line("NT a[40x64;40,0] b[48x64;48,0] d[40x48;40,0]", 1, 1, x.origin(), dy.origin(),
                g.weight.data(), nullptr) +
           line("NN a[40x48;40,0] b[48x64;48,0] d[40x64;40,0]", 1, 0, p.weight.data(), dy.origin(),
                dx.origin(), nullptr);
  };
  cublaslt_calls();
  run();
  EXPECT_EQ(cublaslt_calls(), "");  // not asked for
  const ProductPrecision precisions[] = {ProductPrecision::float32, ProductPrecision::tf32,
                                         ProductPrecision::bfloat16};
  const int computes[]                = {68, 77, 75};
  for (int i = 0; i < 3; ++i) {
    const Scoped vendor(ProductLibrary::vendor, precisions[i]);
    run();
    const std::string first = cublaslt_calls();
    EXPECT_EQ(lines(first, "product"), products(computes[i]));
    const std::string plan = "plan reduction 2 workspace 33554432\n";
    EXPECT_EQ(lines(first, "plan"), plan + plan + plan);
    const Counts counts      = count(run);
    const std::string second = cublaslt_calls();
    EXPECT_EQ(second, products(computes[i]));
    EXPECT_EQ(counts.allocations, 0) << counts;
  }
}

TEST(Vendor, RowsWithGapsAreABatch) {
  if (!is_fake()) GTEST_SKIP() << "no fake cuBLASLt";
  const Scoped vendor(ProductLibrary::vendor);
  const Values memory("memory", 4096);
  const auto rows = [&](float* origin, index_t length) {  // 3 planes of 5 rows, with gaps
    impl::TensorRows<float> r;
    r.origin = origin;
    r.length = length;
    r.rows.append(3, 7 * length);
    r.rows.append(5, length);
    return r;
  };
  const auto x = rows(memory.data(), 8), y = rows(memory.data() + 1024, 6);
  const impl::Matrix<float> w{memory.data() + 2048, 8, 1};
  using Linears = impl::LinearKernels<Space, float>;
  cublaslt_calls();
  Linears::contract(Space(), y, impl::as_const(x), impl::as_const(w), nullptr, 0);
  expect_parts(lines(cublaslt_calls(), "product"),
               {"product TN a[8x6;8,0] b[8x5;8,56] d[6x5;6,42] batch 3 compute 68 epilogue 1 beta "
                "0"});
  // the gradient of the weights adds three products
  Linears::add_products(Space(), w, impl::as_const(y), impl::as_const(x));
  const std::string sums = lines(cublaslt_calls(), "product");
  std::string expected;
  for (int i = 0; i < 3; ++i)
    expected +=
        "product NT a[8x5;8,0] b[6x5;6,0] d[8x6;8,0] batch 1 compute 68 epilogue 1 beta 1 "
        "workspace 33554432" +
        stream() + " at " + address(x.origin + i * 56) + " " + address(y.origin + i * 42) + " " +
        address(w.origin) + " bias (nil)\n";
  EXPECT_EQ(sums, expected);
}

TEST(Vendor, WhatCublasRefusesStaysWithShard) {
  if (!is_fake()) GTEST_SKIP() << "no fake cuBLASLt";
  const Scoped vendor(ProductLibrary::vendor);
  const Values memory("memory", 4096);
  const auto answers = fake<void(int, int)>("fake_cublaslt_answers");
  const auto run     = [&](index_t length) {
    impl::TensorRows<float> x, y;
    x.origin = memory.data();
    y.origin = memory.data() + 1024;
    x.length = y.length = length;
    x.rows.append(9, length);
    y.rows.append(9, length);
    impl::LinearKernels<Space, float>::contract(
            Space(), y, impl::as_const(x), impl::Matrix<const float>{memory.data() + 2048, length, 1},
            nullptr, 0);
  };
  cublaslt_calls();
  answers(15, 0);  // CUBLAS_STATUS_NOT_SUPPORTED
  const Counts counts = count([&] { run(11); });
  answers(0, 0);
  EXPECT_EQ(lines(cublaslt_calls(), "product"), "");
  ASSERT_FALSE(counts.kernel_names.empty());
  EXPECT_EQ(counts.kernel_names.front(), "shard::linear");
  answers(0, 13);  // CUBLAS_STATUS_EXECUTION_FAILED
  expect_parts(message_thrown_by<Error>([&] { run(13); }),
               {"cublasLtMatmul failed: CUBLAS_STATUS_EXECUTION_FAILED", "set_product_library"});
  answers(0, 0);
  // a 1x1 convolution of two samples: their biases are set only where cuBLASLt takes the products
  set_product_precision(ProductPrecision::bfloat16);
  const Values w("w", 48 * 40), bias("bias", 48);
  const auto starts = [&](index_t width) {
    const DeviceBlock<float> fine(2, 40, 8, width), coarse(2, 48, 8, width);
    cublaslt_calls();
    const Counts of = count([&] {
      Kernels::correlate(Space(), coarse.block, as_const(fine.block), w.data(), bias.data(),
                         window(1));
    });
    EXPECT_NE(lines(cublaslt_calls(), "plan"), "");
    return std::count(of.kernel_names.begin(), of.kernel_names.end(), "shard::product_start");
  };
  EXPECT_EQ(starts(8), 2);
  answers(15, 0);
  EXPECT_EQ(starts(9), 0);
  answers(0, 0);
}

/// Largest difference of two blocks' memory, as a fraction of the largest value.
template <class View>
double difference(const View& a, const View& b) {
  const auto x   = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a),
             y   = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), b);
  double largest = 1e-30, most = 0.0;
  for (std::size_t i = 0; i < x.extent(0); ++i) {
    const auto u = static_cast<double>(x(i)), v = static_cast<double>(y(i));
    largest = std::max(largest, std::abs(v));
    most    = std::max(most, std::abs(u - v));
  }
  return most / largest;
}

void fill(const Values& view, Random& random) {
  const auto host = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < host.extent(0); ++i) host(i) = static_cast<float>(random.real());
  Kokkos::deep_copy(view, host);
}

// Under the fake runtime nothing is computed, and all of these are equal.
TEST(Vendor, ValuesAreThoseOfShard) {
  Random random(seed());
  const struct {
    ProductPrecision precision;
    double most;
  } cases[] = {{ProductPrecision::float32, 1e-5},
               {ProductPrecision::tf32, 4e-3},
               {ProductPrecision::bfloat16, 3e-2}};
  const Scoped restored(ProductLibrary::shard);
  for (const auto& [precision, most] : cases)
    for (const int stride : {1, 2}) {
      const DeviceBlock<float> fine(2, 40, 8 * stride, 12 * stride, 3, 1), coarse(2, 48, 8, 12, 1);
      const Values w("w", 48 * 40 * 9), bias("bias", 48);
      const impl::LocalWindow of = window(3, stride, -1);
      for (const Values& view : {fine.memory, coarse.memory, w, bias}) fill(view, random);
      std::vector<Values> results[2];
      for (const ProductLibrary library : {ProductLibrary::shard, ProductLibrary::vendor}) {
        set_product_library(library);
        set_product_precision(precision);
        const auto copy_of = [](const Values& v) {
          const Values copy("copy", v.extent(0));
          Kokkos::deep_copy(copy, v);
          return copy;
        };
        const auto moved = [](impl::Block<float> b, const Values& from, const Values& to) {
          b.origin = to.data() + (b.origin - from.data());
          return b;
        };
        const Values y = copy_of(coarse.memory), dx = copy_of(fine.memory), dw = copy_of(w);
        Kernels::correlate(Space(), moved(coarse.block, coarse.memory, y), as_const(fine.block),
                           w.data(), bias.data(), of);
        Kernels::correlate_transposed(Space(), moved(fine.block, fine.memory, dx),
                                      as_const(coarse.block), w.data(), nullptr, of);
        Kernels::correlate_weights(Space(), dw.data(), as_const(coarse.block), as_const(fine.block),
                                   of);
        const Values rows("rows", 9 * 16 * 48);
        impl::TensorRows<float> to;
        to.origin = rows.data();
        to.length = 48;
        to.rows.append(9, 16 * 48);
        to.rows.append(16, 48);
        impl::TensorRows<const float> from;
        from.origin = fine.memory.data();
        from.length = 40;
        from.rows.append(9, 17 * 40);
        from.rows.append(16, 40);
        const impl::Matrix<const float> matrix{w.data(), 40, 1};
        impl::LinearKernels<Space, float>::contract(Space(), to, from, matrix, bias.data(), 1);
        Space().fence();
        results[library == ProductLibrary::vendor ? 1 : 0] = {y, dx, dw, rows};
      }
      for (std::size_t i = 0; i < results[0].size(); ++i)
        EXPECT_LE(difference(results[1][i], results[0][i]), most) << i << ", stride " << stride;
    }
}

#endif

}  // namespace
}  // namespace shard::testing
