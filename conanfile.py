from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy
from conan.tools.system.package_manager import Apt

required_conan_version = ">=2.0"


class TenetRecipe(ConanFile):
    name = "tenet"
    version = "0.1.0"
    description = "Header-only C++20 deep learning: a network is a C++ type"
    license = "MIT"
    topics = ("deep-learning", "template-metaprogramming", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    exports_sources = "CMakeLists.txt", "cmake/*", "include/*", "LICENSE"
    no_copy_source = True

    def system_requirements(self):
        # zlib, which the component `data` needs, is the system's; Conan checks that it is there (or installs it).
        Apt(self).install(["zlib1g-dev"], check=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for kind in ("TESTS", "EXAMPLES", "BENCHMARKS"):
            toolchain.cache_variables[f"TENET_BUILD_{kind}"] = False
        toolchain.generate()

    def package(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.install()
        copy(self, "LICENSE", src=self.source_folder, dst=f"{self.package_folder}/licenses")

    def package_id(self):
        self.info.clear()

    def package_info(self):
        # The package's own tenetConfig.cmake serves consumers, and finds what it needs itself; Conan only shows where it lies.
        self.cpp_info.set_property("cmake_find_mode", "none")
        for name, libraries in {"tenet": ["pthread"], "data": ["z"]}.items():
            component = self.cpp_info.components[name]
            component.bindirs = component.libdirs = []
            component.builddirs = ["share/cmake/tenet"]
            component.system_libs = libraries
        self.cpp_info.components["data"].requires = ["tenet"]
