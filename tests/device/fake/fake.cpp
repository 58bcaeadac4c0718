// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A CUDA runtime without a device. Device memory is mapped without access, so the host that touches
// it ends the process with exit code 77 and a backtrace; copies go through a shadow. Kernels do
// nothing: values are wrong, and only crashes, hangs and counts mean anything. Calls that are not
// here come from generated stubs, which answer success (see make).
//   FAKE_CUDA_COUNTS=1   prints launches, copies, allocations and fences at the end
#include <cuda_runtime_api.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace {

constexpr int touched_device_memory = 77, touched_nothing = 78;  // exit codes
constexpr std::size_t page = 4096;

struct Allocation {
  std::size_t bytes;
  char* shadow;
};
std::mutex guard;
std::map<char*, Allocation>& allocations() {
  static auto* all = new std::map<char*, Allocation>;  // lives longer than other statics
  return *all;
}
struct {
  long launches, copies, allocations, fences;
} counts;

/// Where the values of a device address are; null for the host's addresses.
char* shadow_of(const void* address) {
  const std::lock_guard<std::mutex> lock(guard);
  auto* const at = static_cast<char*>(const_cast<void*>(address));
  auto found     = allocations().upper_bound(at);
  if (found == allocations().begin()) return nullptr;
  --found;
  const auto offset = static_cast<std::size_t>(at - found->first);
  return offset < found->second.bytes ? found->second.shadow + offset : nullptr;
}

void on_fault(int, siginfo_t* info, void*) {
  auto* const at = static_cast<char*>(info->si_addr);
  bool device    = false;  // without the lock, which this thread may hold
  for (const auto& [begin, allocation] : allocations())
    device = device || (at >= begin && at < begin + allocation.bytes);
  std::fprintf(stderr, "\nfake CUDA: the host touches %s at %p\n",
               device ? "device memory" : "an address that is not mapped", info->si_addr);
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), 2);
  _exit(device ? touched_device_memory : touched_nothing);
}

void catch_faults() {
  static const bool once = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags     = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
    return true;
  }();
  static_cast<void>(once);
}

char* map_pages(std::size_t bytes, int access) {
  void* there = mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return there == MAP_FAILED ? nullptr : static_cast<char*>(there);
}

void copy(void* to, const void* from, std::size_t bytes) {
  ++counts.copies;
  char* const there      = shadow_of(to);
  const char* const here = shadow_of(from);
  std::memmove(there != nullptr ? there : to, here != nullptr ? here : from, bytes);
}

cudaError_t launch(void** arguments) {
  // Kokkos' first kernel asks which architecture it was compiled for.
  if (counts.launches++ == 0)
    if (char* answer = shadow_of(*static_cast<void**>(arguments[0])))
      *reinterpret_cast<int*>(answer) = 900;
  return cudaSuccess;
}

template <class Handle>
cudaError_t make_handle(Handle* handle) {
  static long next = 0;
  *handle          = reinterpret_cast<Handle>(next += 16);
  return cudaSuccess;
}

__attribute__((destructor)) void print_counts() {
  if (std::getenv("FAKE_CUDA_COUNTS") != nullptr)
    std::fprintf(stderr, "fake CUDA: %ld launches, %ld copies, %ld allocations, %ld fences\n",
                 counts.launches, counts.copies, counts.allocations, counts.fences);
}

}  // namespace

extern "C" {

// The device
cudaError_t cudaGetDeviceCount(int* count) {
  catch_faults();
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  std::memset(p, 0, sizeof *p);
  std::strcpy(p->name, "fake device");
  p->major                       = 9;
  p->warpSize                    = 32;
  p->multiProcessorCount         = 132;
  p->maxThreadsPerBlock          = 1024;
  p->maxThreadsDim[0]            = 1024;
  p->maxThreadsDim[1]            = 1024;
  p->maxThreadsDim[2]            = 64;
  p->maxGridSize[0]              = 2147483647;
  p->maxGridSize[1]              = 65535;
  p->maxGridSize[2]              = 65535;
  p->sharedMemPerBlock           = 49152;
  p->sharedMemPerBlockOptin      = 232448;
  p->sharedMemPerMultiprocessor  = 233472;
  p->regsPerBlock                = 65536;
  p->regsPerMultiprocessor       = 65536;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor  = 32;
  p->totalGlobalMem              = std::size_t{80} << 30U;
  p->unifiedAddressing           = 1;
  p->managedMemory               = 1;
  p->concurrentManagedAccess     = 1;
  p->concurrentKernels           = 1;
  p->canMapHostMemory            = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:01:00.0");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 1;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  *free = *all = std::size_t{80} << 30U;
  return cudaSuccess;
}

// Memory
cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  catch_faults();
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  ++counts.allocations;
  bytes              = bytes < page ? page : (bytes + page - 1) / page * page;
  char* const there  = map_pages(bytes, PROT_NONE);
  char* const shadow = map_pages(bytes, PROT_READ | PROT_WRITE);
  if (there == nullptr || shadow == nullptr) return cudaErrorMemoryAllocation;
  const std::lock_guard<std::mutex> lock(guard);
  allocations()[there] = {bytes, shadow};
  *address             = there;
  return cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  if (address == nullptr) return cudaSuccess;
  const std::lock_guard<std::mutex> lock(guard);
  const auto found = allocations().find(static_cast<char*>(address));
  if (found == allocations().end()) {
    std::free(address);
    return cudaSuccess;
  }
  munmap(found->first, found->second.bytes);
  munmap(found->second.shadow, found->second.bytes);
  allocations().erase(found);
  return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** address, std::size_t bytes, cudaStream_t) {
  return cudaMalloc(address, bytes);
}
cudaError_t cudaFreeAsync(void* address, cudaStream_t) { return cudaFree(address); }
cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned) {
  *address = std::aligned_alloc(page, (bytes + page) / page * page);
  return *address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return cudaHostAlloc(address, bytes, 0);
}
cudaError_t cudaMallocManaged(void** address, std::size_t bytes, unsigned) {
  return cudaHostAlloc(address, bytes, 0);
}
cudaError_t cudaFreeHost(void* address) {
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  copy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  copy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  char* const there        = shadow_of(to);
  const std::size_t before = page - reinterpret_cast<std::uintptr_t>(there) % page;
  if (there != nullptr && value == 0 && bytes >= before + page) {
    // Pages that are given back read as zeros: a large field takes no time and no memory.
    const std::size_t whole = (bytes - before) / page * page;
    std::memset(there, 0, before);
    madvise(there + before, whole, MADV_DONTNEED);
    std::memset(there + before + whole, 0, bytes - before - whole);
  } else {
    std::memset(there != nullptr ? there : to, value, bytes);
  }
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  return cudaMemset(to, value, bytes);
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->type =
      shadow_of(address) != nullptr ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void** address, const void*) { return cudaMalloc(address, 65536); }

// Streams and events
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return make_handle(stream); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return make_handle(stream);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return make_handle(event); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return make_handle(event); }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  ++counts.fences;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  ++counts.fences;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  ++counts.fences;
  return cudaSuccess;
}

// Kernels
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void*) {
  std::memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = 1024;
  a->numRegs            = 32;
  a->binaryVersion = a->ptxVersion = 90;
  a->maxDynamicSharedSizeBytes     = 49152;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          std::size_t) {
  *blocks = 2048 / (threads > 0 ? threads : 1);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* kernel,
                                                                   int threads, std::size_t bytes,
                                                                   unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, bytes);
}
const char* cudaGetErrorString(cudaError_t) { return "an error of the fake runtime"; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorFake"; }
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, void*) { return 0; }
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* bytes, void* stream) {
  *grid                        = dim3(1);
  *block                       = dim3(1);
  *bytes                       = 0;
  *static_cast<void**>(stream) = nullptr;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void** arguments, std::size_t, cudaStream_t) {
  return launch(arguments);
}
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void** arguments, std::size_t,
                               cudaStream_t) {
  return launch(arguments);
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return __cudaGetKernel(kernel, function);
}

}  // extern "C"
