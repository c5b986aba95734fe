# Put it into packages/gorun of a Spack repository of yours; `spack repo create` makes one.
from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Gorun(MakefilePackage):
    """Starts a program as the ranks of one job: a drop-in replacement for torchrun and mpirun."""

    # `make module MODULE=example.org/you/gorun` sets your address.
    homepage = "https://example.org/gorun"
    git = "https://example.org/gorun.git"

    license("Apache-2.0")

    version("main", branch="main")
    version("0.2.0", tag="v0.2.0")

    depends_on("go@1.26:", type="build")
    depends_on("git", type="build")

    sanity_check_is_file = ["bin/gorun", "share/man/man1/gorun.1"]

    def build(self, spec, prefix):
        make("gorun", "man")

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        install("bin/gorun", prefix.bin)
        for section in ("1", "7"):
            pages = join_path(prefix.share.man, "man" + section)
            mkdirp(pages)
            install("build/man/*." + section, pages)

    @run_after("install")
    def install_completions(self):
        gorun = Executable(self.prefix.bin.gorun)
        for shell, folder, name in (
            ("bash", bash_completion_path(self.prefix), "gorun"),
            ("zsh", zsh_completion_path(self.prefix), "_gorun"),
            ("fish", fish_completion_path(self.prefix), "gorun.fish"),
        ):
            mkdirp(folder)
            with open(join_path(folder, name), "w") as script:
                gorun("completion", shell, output=script)
