# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Shard(CMakePackage):
    """Sharded-tensor types on Kokkos: halo exchange with its adjoint, redistribution,
    reproducible sums, solvers and layers, from C++, C and Fortran.

    The backend is that of Kokkos: shard ^kokkos+cuda+wrapper cuda_arch=90."""

    # the source tree that holds this recipe
    root = ancestor(__file__, 6)
    homepage = f"file://{root}/README.md"
    git = f"file://{root}"

    license("Apache-2.0 WITH LLVM-exception")

    test_requires_compiler = True

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("shared", default=True, description="Build shared libraries")
    variant("nccl", default=False, description="Messages between CUDA devices by NCCL")
    variant("cudnn", default=False, description="Convolutions by cuDNN on request")
    variant("cublaslt", default=False, description="Dense products by cuBLASLt on request")
    variant("miopen", default=False, description="Convolutions by MIOpen on request")
    variant("rocblas", default=False, description="Dense products by rocBLAS on request")
    variant("rccl", default=False, description="Messages between HIP devices by RCCL")
    variant("netcdf", default=True, description="Read and write NetCDF")
    variant("pnetcdf", default=False, when="+netcdf", description="All ranks write NetCDF")
    variant("pictures", default=False, description="Draw maps with Cairo")
    variant("fftw", default=False, description="Poisson solves by FFTW")
    variant("kernels", default=False, description="Dense products by Kokkos Kernels")
    variant("fortran", default=False, description="The Fortran module")
    variant("tests", default=False, description="Build the tests")

    depends_on("cxx", type="build")
    depends_on("c", type="build", when="+fortran")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")

    depends_on("mpi@3:")
    depends_on("kokkos@4.5:5")
    depends_on("kokkos-kernels@4.5:5", when="+kernels")
    depends_on("nccl", when="+nccl")
    depends_on("cudnn@9:", when="+cudnn")
    depends_on("cuda", when="+cublaslt")
    depends_on("miopen-hip", when="+miopen")
    depends_on("rocblas", when="+rocblas")
    depends_on("rccl", when="+rccl")
    depends_on("netcdf-c", when="+netcdf")
    depends_on("parallel-netcdf", when="+pnetcdf")
    depends_on("cairo+png", when="+pictures")
    depends_on("fftw@3:", when="+fftw")
    depends_on("cli11", type="build")  # of the program shard-info
    depends_on("googletest", type="build", when="+tests")
    with default_args(type="build"):
        depends_on("pkgconfig", when="+netcdf")
        depends_on("pkgconfig", when="+pictures")
        depends_on("pkgconfig", when="+fftw")

    requires("^kokkos+cuda", when="+nccl", msg="NCCL is for kokkos+cuda")
    requires("^kokkos+cuda", when="+cudnn", msg="cuDNN is for kokkos+cuda")
    requires("^kokkos+cuda", when="+cublaslt", msg="cuBLASLt is for kokkos+cuda")
    requires("^kokkos+rocm", when="+miopen", msg="MIOpen is for kokkos+rocm")
    requires("^kokkos+rocm", when="+rocblas", msg="shard's rocBLAS is for kokkos+rocm")
    requires("^kokkos+rocm", when="+rccl", msg="RCCL is for kokkos+rocm")
    # an archive without position-independent code can't be in a shared library
    requires("^kokkos+pic", when="+shared ^kokkos~shared")

    def cmake_args(self):
        args = [
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            # Spack's compilers are called with the target's -march
            self.define("SHARD_PROCESSOR_LEVELS", False),
            self.define_from_variant("SHARD_ENABLE_NCCL", "nccl"),
            self.define_from_variant("SHARD_ENABLE_CUDNN", "cudnn"),
            self.define_from_variant("SHARD_ENABLE_CUBLASLT", "cublaslt"),
            self.define_from_variant("SHARD_ENABLE_MIOPEN", "miopen"),
            self.define_from_variant("SHARD_ENABLE_ROCBLAS", "rocblas"),
            self.define_from_variant("SHARD_ENABLE_RCCL", "rccl"),
            self.define_from_variant("SHARD_ENABLE_NETCDF", "netcdf"),
            self.define_from_variant("SHARD_ENABLE_PNETCDF", "pnetcdf"),
            self.define_from_variant("SHARD_ENABLE_PICTURES", "pictures"),
            self.define_from_variant("SHARD_ENABLE_FFTW", "fftw"),
            self.define_from_variant("SHARD_ENABLE_KERNELS", "kernels"),
            self.define_from_variant("SHARD_ENABLE_FORTRAN", "fortran"),
            self.define_from_variant("SHARD_ENABLE_TESTS", "tests"),
            self.define("SHARD_ENABLE_EXAMPLES", False),
            self.define("SHARD_UNITY_BUILD", True),
        ]
        if self.spec.satisfies("^kokkos+rocm") and not (
            self.spec.satisfies("%cxx=clang") or self.spec.satisfies("%cxx=rocmcc")
        ):
            args.append(self.define("CMAKE_CXX_COMPILER", self.spec["hip"].hipcc))
        else:
            args.append(self.define("CMAKE_CXX_COMPILER", self["kokkos"].kokkos_cxx))
        return args

    @run_after("install")
    def keep_test_sources(self):
        cache_extra_test_sources(self, join_path("tests", "install", "as_package"))

    def test_as_package(self):
        """build a program outside with find_package, and run it on two ranks"""
        source = join_path(self.test_suite.current_test_cache_dir, "tests/install/as_package")
        compiler = self["kokkos"].kokkos_cxx
        if self.spec.satisfies("^kokkos+rocm"):
            compiler = self.spec["hip"].hipcc
        cmake = which(self.spec["cmake"].prefix.bin.cmake, required=True)
        cmake(
            source,
            self.define("shard_ROOT", self.prefix),
            self.define("Kokkos_ROOT", self.spec["kokkos"].prefix),
            self.define("MPI_HOME", self.spec["mpi"].prefix),
            self.define("CMAKE_CXX_COMPILER", compiler),
        )
        cmake("--build", ".")
        mpiexec = which(self.spec["mpi"].prefix.bin.mpiexec, "mpiexec", "srun", required=True)
        out = mpiexec("-n", "2", "./outside", output=str.split, error=str.split)
        check_outputs("rank 1 of 2: the halo is right", out)

    def test_info(self):
        """shard-info knows its version"""
        info = which(self.prefix.bin.join("shard-info"), required=True)
        check_outputs("shard", info(output=str.split, error=str.split))
