// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a Kokkos built for CUDA has in its library and Debian's has not: the execution space Cuda
// and its memory spaces, each by the plain call of the CUDA runtime. With it objects compiled
// against Debian's headers are linked and run under the fake runtime. It defines members that
// Kokkos' headers declare, so it has to name Kokkos::Impl, as nothing else here may. Written for
// Kokkos 5.2.
#define KOKKOS_IMPL_PUBLIC_INCLUDE
#include <Kokkos_Core.hpp>
#include <impl/Kokkos_ExecSpaceManager.hpp>
#include <impl/Kokkos_SharedAlloc_timpl.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <string>

namespace desul::Impl {
int32_t* CUDA_SPACE_ATOMIC_LOCKS_DEVICE_h = nullptr;
int32_t* CUDA_SPACE_ATOMIC_LOCKS_NODE_h   = nullptr;
}  // namespace desul::Impl

namespace Kokkos::Impl {
namespace {

namespace tools = Kokkos::Tools::Experimental;

/// Memory from `call(&address)`, reported to profiling tools.
template <class Call>
void* allocated(const Call& call, const char* space, const char* label, std::size_t bytes,
                std::size_t logical) {
  void* address = nullptr;
  if (call(&address) != cudaSuccess) throw std::bad_alloc();
  if (Kokkos::Tools::profileLibraryLoaded())
    Kokkos::Tools::allocateData(Kokkos::Tools::make_space_handle(space), label, address,
                                logical > 0 ? logical : bytes);
  return address;
}

template <class Call>
void deallocated(const Call& call, const char* space, const char* label, void* address,
                 std::size_t bytes, std::size_t logical) {
  if (address == nullptr) return;
  if (Kokkos::Tools::profileLibraryLoaded())
    Kokkos::Tools::deallocateData(Kokkos::Tools::make_space_handle(space), label, address,
                                  logical > 0 ? logical : bytes);
  KOKKOS_IMPL_CUDA_SAFE_CALL(call(address));
}

/// Makes `memory` at least `bytes` long. `Space` is where it lives.
template <class Space, class Word>
Word* grown(Word*& memory, std::size_t& has, std::size_t bytes, const Space& space,
            const char* label) {
  if (has < bytes) {
    space.deallocate(memory, has);
    memory = static_cast<Word*>(space.allocate(label, bytes));
    has    = bytes;
  }
  return memory;
}

const int registered = initialize_space_factory<Cuda>("150_Cuda");

}  // namespace

int CudaInternal::m_cudaArch = 900;
cudaDeviceProp CudaInternal::m_deviceProp;
HostSharedPtr<CudaInternal> CudaInternal::default_instance;
std::set<int> CudaInternal::cuda_devices;
std::map<int, unsigned long*> CudaInternal::constantMemHostStagingPerDevice;
std::map<int, cudaEvent_t> CudaInternal::constantMemReusablePerDevice;
std::map<int, std::mutex> CudaInternal::constantMemMutexPerDevice;

CudaInternal::CudaInternal(cudaStream_t stream) : m_cudaDev(0), m_stream(stream) {
  m_num_scratch_locks = static_cast<std::size_t>(concurrency());
  void* locks         = nullptr;
  KOKKOS_IMPL_CUDA_SAFE_CALL(cudaMalloc(&locks, sizeof(int32_t) * m_num_scratch_locks));
  KOKKOS_IMPL_CUDA_SAFE_CALL(cudaMemset(locks, 0, sizeof(int32_t) * m_num_scratch_locks));
  m_scratch_locks = static_cast<int32_t*>(locks);
}

CudaInternal::~CudaInternal() {
  const CudaSpace device = CudaSpace::impl_create(m_cudaDev, m_stream);
  device.deallocate(m_scratchSpace, m_scratchSpaceCount);
  device.deallocate(m_scratchFlags, m_scratchFlagsCount);
  device.deallocate(m_scratchFunctor, m_scratchFunctorSize);
  CudaHostPinnedSpace::impl_create(m_cudaDev, m_stream)
      .deallocate(m_scratchUnified, m_scratchUnifiedCount);
  for (int i = 0; i < m_n_team_scratch; ++i)
    device.deallocate(m_team_scratch_ptr[i],
                      static_cast<std::size_t>(m_team_scratch_current_size[i]));
  KOKKOS_IMPL_CUDA_SAFE_CALL(cudaFree(m_scratch_locks));
}

int CudaInternal::concurrency() {
  return m_deviceProp.maxThreadsPerMultiProcessor * m_deviceProp.multiProcessorCount;
}

int CudaInternal::verify_is_initialized(const char* const label) const {
  if (m_cudaDev < 0) Kokkos::abort(label);
  return 1;
}

uint32_t CudaInternal::impl_get_instance_id() const { return m_instance_id; }

void CudaInternal::fence(const std::string& name) const {
  tools::Impl::profile_fence_event<Cuda>(
      name, tools::Impl::DirectFenceIDHandle{m_instance_id},
      [this] { KOKKOS_IMPL_CUDA_SAFE_CALL(cudaStreamSynchronize(m_stream)); });
}
void CudaInternal::fence() const { fence("Kokkos::CudaInternal::fence"); }

// The counts are bytes here.
Cuda::size_type* CudaInternal::scratch_space(const std::size_t bytes) const {
  return grown(m_scratchSpace, m_scratchSpaceCount, bytes,
               CudaSpace::impl_create(m_cudaDev, m_stream), "Kokkos::InternalScratchSpace");
}
Cuda::size_type* CudaInternal::scratch_flags(const std::size_t bytes) const {
  const std::size_t before = m_scratchFlagsCount;
  grown(m_scratchFlags, m_scratchFlagsCount, bytes, CudaSpace::impl_create(m_cudaDev, m_stream),
        "Kokkos::InternalScratchFlags");
  if (before < bytes) KOKKOS_IMPL_CUDA_SAFE_CALL(cudaMemset(m_scratchFlags, 0, bytes));
  return m_scratchFlags;
}
Cuda::size_type* CudaInternal::scratch_unified(const std::size_t bytes) const {
  return grown(m_scratchUnified, m_scratchUnifiedCount, bytes,
               CudaHostPinnedSpace::impl_create(m_cudaDev, m_stream),
               "Kokkos::InternalScratchUnified");
}
Cuda::size_type* CudaInternal::scratch_functor(const std::size_t bytes) const {
  return grown(m_scratchFunctor, m_scratchFunctorSize, bytes,
               CudaSpace::impl_create(m_cudaDev, m_stream), "Kokkos::InternalScratchFunctor");
}

int CudaInternal::acquire_team_scratch_space() {
  for (int i = 0;; i = (i + 1) % m_n_team_scratch) {
    int unused = 0;
    if (m_team_scratch_pool[i].compare_exchange_strong(unused, 1)) return i;
  }
}
void* CudaInternal::resize_team_scratch_space(int id, std::int64_t bytes, bool) {
  auto has = static_cast<std::size_t>(m_team_scratch_current_size[id]);
  grown(m_team_scratch_ptr[id], has, static_cast<std::size_t>(bytes),
        CudaSpace::impl_create(m_cudaDev, m_stream), "Kokkos::CudaSpace::TeamScratchMemory");
  m_team_scratch_current_size[id] = static_cast<std::int64_t>(has);
  return m_team_scratch_ptr[id];
}
void CudaInternal::release_team_scratch_space(int id) { m_team_scratch_pool[id] = 0; }

Cuda::size_type* cuda_internal_scratch_space(const Cuda& space, const std::size_t bytes) {
  return space.impl_internal_space_instance()->scratch_space(bytes);
}
Cuda::size_type* cuda_internal_scratch_flags(const Cuda& space, const std::size_t bytes) {
  return space.impl_internal_space_instance()->scratch_flags(bytes);
}
Cuda::size_type* cuda_internal_scratch_unified(const Cuda& space, const std::size_t bytes) {
  return space.impl_internal_space_instance()->scratch_unified(bytes);
}

void cuda_device_synchronize(const std::string& name) {
  tools::Impl::profile_fence_event<Cuda>(
      name, tools::SpecialSynchronizationCases::GlobalDeviceSynchronization,
      [] { KOKKOS_IMPL_CUDA_SAFE_CALL(cudaDeviceSynchronize()); });
}
void cuda_prefetch_pointer(const Cuda&, const void*, std::size_t, bool) {}

void cuda_internal_error_throw(cudaError error, const char* name, const char* file,
                               const int line) {
  throw_runtime_exception(std::string(name) + ": " + cudaGetErrorName(error) + " " +
                          (file == nullptr ? "" : file) + ":" + std::to_string(line));
}
void cuda_internal_error_abort(cudaError error, const char* name, const char* file,
                               const int line) {
  host_abort((std::string(name) + ": " + cudaGetErrorName(error) + " " +
              (file == nullptr ? "" : file) + ":" + std::to_string(line))
                 .c_str());
}

void DeepCopyCuda(void* to, const void* from, std::size_t bytes) {
  KOKKOS_IMPL_CUDA_SAFE_CALL(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}
void DeepCopyAsyncCuda(const Cuda& space, void* to, const void* from, std::size_t bytes) {
  KOKKOS_IMPL_CUDA_SAFE_CALL(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, space.cuda_stream()));
}
void DeepCopyAsyncCuda(void* to, const void* from, std::size_t bytes) {
  DeepCopyAsyncCuda(Cuda(), to, from, bytes);
  Cuda().fence("Kokkos::Impl::DeepCopyAsyncCuda: Deep Copy Stream Sync");
}

}  // namespace Kokkos::Impl

namespace Kokkos {

void Cuda::impl_initialize(const InitializationSettings&) {
  KOKKOS_IMPL_CUDA_SAFE_CALL(cudaSetDevice(0));
  KOKKOS_IMPL_CUDA_SAFE_CALL(cudaGetDeviceProperties(&Impl::CudaInternal::m_deviceProp, 0));
  Impl::CudaInternal::cuda_devices = {0};
  // Large functors go through constant memory.
  void* staging = nullptr;
  KOKKOS_IMPL_CUDA_SAFE_CALL(cudaMallocHost(&staging, Impl::CudaTraits::ConstantMemoryUsage));
  Impl::CudaInternal::constantMemHostStagingPerDevice[0] = static_cast<unsigned long*>(staging);
  KOKKOS_IMPL_CUDA_SAFE_CALL(cudaEventCreate(&Impl::CudaInternal::constantMemReusablePerDevice[0]));
  cudaStream_t stream = nullptr;
  KOKKOS_IMPL_CUDA_SAFE_CALL(cudaStreamCreate(&stream));
  Impl::CudaInternal::default_instance =
      Impl::HostSharedPtr<Impl::CudaInternal>(new Impl::CudaInternal(stream));
}

void Cuda::impl_finalize() {
  Impl::CudaInternal::default_instance = nullptr;
  KOKKOS_IMPL_CUDA_SAFE_CALL(cudaFreeHost(Impl::CudaInternal::constantMemHostStagingPerDevice[0]));
}

Cuda::Cuda() : m_space_instance(Impl::CudaInternal::default_instance) {}

Cuda::Cuda(cudaStream_t stream, Impl::ManageStream manage)
    : m_space_instance(new Impl::CudaInternal(stream), [manage](Impl::CudaInternal* instance) {
        const cudaStream_t its_stream = instance->m_stream;
        delete instance;
        if (manage == Impl::ManageStream::yes)
          KOKKOS_IMPL_CUDA_SAFE_CALL(cudaStreamDestroy(its_stream));
      }) {}

int Cuda::concurrency() const { return Impl::CudaInternal::concurrency(); }
void Cuda::print_configuration(std::ostream&, bool) const {}
void Cuda::impl_static_fence(const std::string& name) { Impl::cuda_device_synchronize(name); }
void Cuda::fence(const std::string& name) const { m_space_instance->fence(name); }
const char* Cuda::name() { return "Cuda"; }
uint32_t Cuda::impl_instance_id() const noexcept { return m_space_instance->m_instance_id; }
cudaStream_t Cuda::cuda_stream() const { return m_space_instance->m_stream; }
int Cuda::cuda_device() const { return 0; }
const cudaDeviceProp& Cuda::cuda_device_prop() const { return Impl::CudaInternal::m_deviceProp; }

CudaSpace::CudaSpace() : CudaSpace(0, Cuda().cuda_stream()) {}
CudaSpace::CudaSpace(int device, cudaStream_t stream) : m_device(device), m_stream(stream) {}
void* CudaSpace::allocate(const std::size_t bytes) const { return allocate("[unlabeled]", bytes); }
void* CudaSpace::allocate(const char* label, const std::size_t bytes,
                          const std::size_t logical) const {
  return Impl::allocated([=](void** address) { return cudaMalloc(address, bytes); }, name(), label,
                         bytes, logical);
}
void* CudaSpace::allocate(const Cuda&, const std::size_t bytes) const { return allocate(bytes); }
void* CudaSpace::allocate(const Cuda&, const char* label, const std::size_t bytes,
                          const std::size_t logical) const {
  return allocate(label, bytes, logical);
}
void CudaSpace::deallocate(void* const address, const std::size_t bytes) const {
  deallocate("[unlabeled]", address, bytes);
}
void CudaSpace::deallocate(const char* label, void* const address, const std::size_t bytes,
                           const std::size_t logical) const {
  Impl::deallocated([](void* memory) { return cudaFree(memory); }, name(), label, address, bytes,
                    logical);
}

CudaHostPinnedSpace::CudaHostPinnedSpace() : CudaHostPinnedSpace(0, Cuda().cuda_stream()) {}
CudaHostPinnedSpace::CudaHostPinnedSpace(int device, cudaStream_t stream)
    : m_device(device), m_stream(stream) {}
void* CudaHostPinnedSpace::allocate(const std::size_t bytes) const {
  return allocate("[unlabeled]", bytes);
}
void* CudaHostPinnedSpace::allocate(const char* label, const std::size_t bytes,
                                    const std::size_t logical) const {
  return Impl::allocated([=](void** address) { return cudaMallocHost(address, bytes); }, name(),
                         label, bytes, logical);
}
void CudaHostPinnedSpace::deallocate(void* const address, const std::size_t bytes) const {
  deallocate("[unlabeled]", address, bytes);
}
void CudaHostPinnedSpace::deallocate(const char* label, void* const address,
                                     const std::size_t bytes, const std::size_t logical) const {
  Impl::deallocated([](void* memory) { return cudaFreeHost(memory); }, name(), label, address,
                    bytes, logical);
}

// Nothing here allocates in CudaUVMSpace; Kokkos' headers make one.
CudaUVMSpace::CudaUVMSpace() : CudaUVMSpace(0, Cuda().cuda_stream()) {}
CudaUVMSpace::CudaUVMSpace(int device, cudaStream_t stream) : m_device(device), m_stream(stream) {}

}  // namespace Kokkos

KOKKOS_IMPL_HOST_INACCESSIBLE_SHARED_ALLOCATION_RECORD_EXPLICIT_INSTANTIATION(Kokkos::CudaSpace);
KOKKOS_IMPL_SHARED_ALLOCATION_RECORD_EXPLICIT_INSTANTIATION(Kokkos::CudaHostPinnedSpace);
