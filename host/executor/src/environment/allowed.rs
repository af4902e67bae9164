//! The names of the variables that are passed by default.

/// Names, or prefixes with a trailing `*`.
#[rustfmt::skip]
pub const DEFAULT_ENV_ALLOW: &[&str] = &[
    // The session, the terminal and the shell.
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "LANG", "LANGUAGE", "LC_*", "TZ",
    "TERM", "TERMINFO", "TERM_PROGRAM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "CLICOLOR",
    "CLICOLOR_FORCE", "FORCE_COLOR", "LS_COLORS", "TMPDIR", "TMP", "TEMP", "XDG_*", "DISPLAY",
    "EDITOR", "VISUAL", "PAGER", "MANPAGER", "MANPATH", "INFOPATH", "LESS", "DEBIAN_FRONTEND",
    "CI", "BASH_ENV",
    // Compilers and linkers.
    "LD_LIBRARY_PATH", "LD_RUN_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH", "PKG_CONFIG_*", "CC", "CC_*", "CXX", "CXX_*", "CPP", "CFLAGS",
    "CFLAGS_*", "CPPFLAGS", "CXXFLAGS", "CXXFLAGS_*", "LDFLAGS", "LDLIBS", "FC", "F77", "F90",
    "FFLAGS", "FCFLAGS", "AR", "AS", "LD", "NM", "RANLIB", "STRIP", "MAKEFLAGS", "CMAKE_*",
    "CTEST_*", "MESON_*", "CCACHE_*", "SCCACHE_*", "CGO_*", "OPENSSL_DIR", "OPENSSL_LIB_DIR",
    "OPENSSL_INCLUDE_DIR", "LIBCLANG_PATH", "BINDGEN_EXTRA_CLANG_ARGS", "PROTOC",
    // Python.
    "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "CONDA_*", "MAMBA_*", "PYTHON*", "PYENV_*", "PIP_*",
    "PIPX_*", "PIPENV_*", "UV_*", "POETRY_*", "PDM_*", "HATCH_*", "PYTEST_*", "TOX_*", "NOX*",
    "COVERAGE_*", "MYPY*", "RUFF_*", "DJANGO_SETTINGS_MODULE", "FLASK_APP", "FLASK_ENV",
    "FLASK_DEBUG", "IPYTHONDIR", "JUPYTER_*", "MPLBACKEND", "MPLCONFIGDIR", "NUMBA_*",
    // Accelerators and model tools.
    "CUDA_*", "CUDNN_*", "NVIDIA_*", "NCCL_*", "HIP_*", "ROCM_*", "ROCR_*", "HSA_*", "GPU_*",
    "ZE_*", "SYCL_*", "ONEAPI_*", "TORCH_*", "PYTORCH_*", "TRITON_*", "TF_CPP_*", "TF_CUDNN_*", "TF_DETERMINISTIC_OPS", "TF_ENABLE_*", "TF_FORCE_*", "TF_GPU_*", "TF_NUM_*", "TF_USE_*", "TF_XLA_*", "XLA_*", "JAX_*",
    "VLLM_*", "HF_HOME", "HF_HUB_*", "HF_DATASETS_*", "HF_ENDPOINT", "HUGGINGFACE_HUB_CACHE",
    "TRANSFORMERS_*", "TOKENIZERS_PARALLELISM", "WANDB_MODE", "WANDB_DISABLED", "WANDB_DIR",
    // Clusters: threads, messages, jobs and modules.
    "OMP_*", "GOMP_*", "KMP_*", "MKL_*", "OPENBLAS_*", "BLIS_*", "NUMEXPR_*", "VECLIB_*",
    "OMPI_*", "OPAL_*", "PMI_*", "PMIX_*", "PRTE_*", "MPI_*", "MPICH_*", "I_MPI_*", "UCX_*",
    "FI_*", "SLURM_*", "SLURMD_*", "SBATCH_*", "SRUN_*", "PBS_*", "LSB_*", "SGE_*", "JOB_ID",
    "SCRATCH", "MODULEPATH", "MODULEPATH_*", "MODULESHOME", "MODULES_*", "MODULERCFILE",
    "LOADEDMODULES", "_LMFILES_*", "LMOD_*", "__LMOD_*", "_ModuleTable*", "BASH_FUNC_module%%",
    "BASH_FUNC_ml%%", "EBROOT*", "EBVERSION*", "EASYBUILD_*", "SPACK_*",
    // JavaScript.
    "NODE_*", "NVM_*", "FNM_*", "VOLTA_*", "NPM_CONFIG_*", "npm_config_*", "YARN_*", "PNPM_HOME",
    "COREPACK_*", "BUN_INSTALL", "DENO_DIR", "DENO_INSTALL", "TS_NODE_*", "PLAYWRIGHT_*",
    "PUPPETEER_*",
    // Rust and Go.
    "CARGO_*", "RUSTUP_*", "RUST_*", "RUSTC", "RUSTC_*", "RUSTFLAGS", "RUSTDOC", "RUSTDOCFLAGS",
    "GOPATH", "GOROOT", "GOBIN", "GOFLAGS", "GOPROXY", "GOTOOLCHAIN", "GOCACHE", "GOMODCACHE",
    "GOTMPDIR", "GOENV", "GOOS", "GOARCH", "GOARM", "GOAMD64", "GOEXPERIMENT", "GOPRIVATE",
    "GONOPROXY", "GONOSUMDB", "GOSUMDB", "GOINSECURE", "GOVCS", "GOWORK", "GOMAXPROCS",
    "GOMEMLIMIT", "GOGC", "GODEBUG", "GO111MODULE",
    // Java, Ruby, .NET, PHP, Perl, R, Julia, Nix.
    "JAVA_*", "JDK_*", "_JAVA_OPTIONS", "MAVEN_*", "M2_HOME", "M2", "GRADLE_*", "SBT_OPTS",
    "ANT_HOME", "ANT_OPTS", "KOTLIN_HOME", "SCALA_HOME", "SDKMAN_*", "ANDROID_HOME",
    "ANDROID_SDK_ROOT", "ANDROID_NDK_HOME", "GEM_HOME", "GEM_PATH", "BUNDLE_*", "RBENV_*",
    "RUBYLIB", "RUBYOPT", "RAILS_ENV", "RACK_ENV", "DOTNET_*", "NUGET_PACKAGES", "COMPOSER_HOME",
    "COMPOSER_CACHE_DIR", "PERL5LIB", "PERL5OPT", "PERL_MM_OPT", "PERL_MB_OPT",
    "PERL_LOCAL_LIB_ROOT", "R_HOME", "R_LIBS", "R_LIBS_USER", "R_LIBS_SITE", "JULIA_*",
    "NIX_PATH", "NIX_PROFILES", "NIX_SSL_CERT_FILE", "NIX_STORE", "IN_NIX_SHELL",
    // Git: the author and committer, and its behaviour.
    "GIT_AUTHOR_*", "GIT_COMMITTER_*", "GIT_EDITOR", "GIT_PAGER", "GIT_TERMINAL_PROMPT",
    "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_LFS_SKIP_SMUDGE",
    "GIT_SSL_CAINFO", "EMAIL",
    // The network.
    "http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy", "HTTP_PROXY",
    "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
];
