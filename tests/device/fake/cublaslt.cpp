// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A cuBLASLt that computes nothing. It refuses matrices that don't match and memory that isn't the
// device's. The tests ask what it was called with, and tell it what to answer.
#include <cublasLt.h>

#include <cstring>
#include <map>
#include <vector>

#include "calls.hpp"

namespace {

/// A description: its attributes' bytes.
struct Attributes {
  std::map<int, std::vector<char>> values;

  template <class Value>
  Value get(int attribute, Value value) const {
    const auto found = values.find(attribute);
    if (found != values.end()) std::memcpy(&value, found->second.data(), sizeof value);
    return value;
  }
  void set(int attribute, const void* value, std::size_t bytes) {
    const char* const begin = static_cast<const char*>(value);
    values[attribute]       = std::vector<char>(begin, begin + bytes);
  }
};
struct Layout : Attributes {
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;
};
struct Product : Attributes {
  int compute = 0;
};

template <class To, class From>
To* as(From* handle) {
  return reinterpret_cast<To*>(handle);
}

cublasStatus_t heuristic_answer = CUBLAS_STATUS_SUCCESS, product_answer = CUBLAS_STATUS_SUCCESS;

int batch_of(const Layout& l) { return l.get(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1); }
std::int64_t step_of(const Layout& l) {
  return l.get(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, std::int64_t{0});
}
long long last(const Layout& l) {
  return step_of(l) * (batch_of(l) - 1LL) + l.leading * (static_cast<long long>(l.columns) - 1) +
         static_cast<long long>(l.rows) - 1;
}
std::string text(const char* name, const Layout& l) {
  return std::string(" ") + name + "[" + std::to_string(l.rows) + "x" + std::to_string(l.columns) +
         ";" + std::to_string(l.leading) + "," + std::to_string(step_of(l)) + "]";
}
bool is_transposed(const Product& p, int attribute) {
  return p.get(attribute, CUBLAS_OP_N) == CUBLAS_OP_T;
}
bool match(const Product& p, const Layout& a, const Layout& b, const Layout& d) {
  const bool ta = is_transposed(p, CUBLASLT_MATMUL_DESC_TRANSA),
             tb = is_transposed(p, CUBLASLT_MATMUL_DESC_TRANSB);
  for (const Layout* l : {&a, &b, &d})
    if (l->leading < static_cast<std::int64_t>(l->rows) || batch_of(*l) != batch_of(d))
      return false;
  return (ta ? a.columns : a.rows) == d.rows && (tb ? b.rows : b.columns) == d.columns &&
         (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows);
}

}  // namespace

extern "C" {

// For the tests
const char* fake_cublaslt_calls() { return fake::calls_since(); }
/// The status that all later calls answer.
void fake_cublaslt_answers(int of_heuristic, int of_product) {
  heuristic_answer = static_cast<cublasStatus_t>(of_heuristic);
  product_answer   = static_cast<cublasStatus_t>(of_product);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  fake::calls() += "create\n";
  *handle = as<cublasLtContext>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete as<int>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                                  : "another status of cuBLAS";
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  if (type != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  auto* const made = new Layout;
  made->rows       = rows;
  made->columns    = columns;
  made->leading    = leading;
  *layout          = as<cublasLtMatrixLayoutOpaque_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete as<Layout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  as<Layout>(layout)->set(attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  auto* const made = new Product;
  made->compute    = compute;
  *product         = as<cublasLtMatmulDescOpaque_t>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete as<Product>(product);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  as<Product>(product)->set(attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = as<cublasLtMatmulPreferenceOpaque_t>(new Attributes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete as<Attributes>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  as<Attributes>(preference)->set(attribute, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t* result, int* found) {
  if (c != d || !match(*as<Product>(product), *as<Layout>(a), *as<Layout>(b), *as<Layout>(d)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const Attributes& p = *as<Attributes>(preference);
  fake::calls() +=
      "plan reduction " + std::to_string(p.get(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 7U)) +
      " workspace " +
      std::to_string(p.get(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{0})) + "\n";
  *found                = heuristic_answer == CUBLAS_STATUS_SUCCESS ? 1 : 0;
  result->state         = CUBLAS_STATUS_SUCCESS;
  result->workspaceSize = 1024;
  return heuristic_answer;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* at_a, cublasLtMatrixLayout_t la, const void* at_b,
                              cublasLtMatrixLayout_t lb, const void* beta, const void* at_c,
                              cublasLtMatrixLayout_t lc, void* at_d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t*, void* workspace, std::size_t bytes,
                              cudaStream_t stream) {
  const Product& p = *as<Product>(product);
  const Layout &a = *as<Layout>(la), &b = *as<Layout>(lb), &d = *as<Layout>(ld);
  if (at_c != at_d || lc != ld || !match(p, a, b, d) || *static_cast<const float*>(alpha) != 1.0F ||
      !fake::is_device_memory(at_a, last(a)) || !fake::is_device_memory(at_b, last(b)) ||
      !fake::is_device_memory(at_d, last(d)) ||
      !fake::is_device_memory(workspace, static_cast<long long>(bytes / sizeof(float)) - 1))
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto letter = [](bool transposed) { return transposed ? "T" : "N"; };
  const void* none  = nullptr;
  fake::calls() += std::string("product ") + letter(is_transposed(p, CUBLASLT_MATMUL_DESC_TRANSA)) +
                   letter(is_transposed(p, CUBLASLT_MATMUL_DESC_TRANSB)) + text("a", a) +
                   text("b", b) + text("d", d) + " batch " + std::to_string(batch_of(d)) +
                   " compute " + std::to_string(p.compute) + " epilogue " +
                   std::to_string(p.get(CUBLASLT_MATMUL_DESC_EPILOGUE, 1)) + " beta " +
                   std::to_string(static_cast<int>(*static_cast<const float*>(beta))) +
                   " workspace " + std::to_string(bytes) + " stream " + fake::address(stream) +
                   " at " + fake::address(at_a) + " " + fake::address(at_b) + " " +
                   fake::address(at_d) + " bias " +
                   fake::address(p.get(CUBLASLT_MATMUL_DESC_BIAS_POINTER, none)) + "\n";
  return product_answer;
}

}  // extern "C"
