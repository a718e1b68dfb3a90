//! Finds libfabric, hwloc and libclang, and generates the declarations that this crate needs from the installed headers.
//!
//! `LIBFABRIC_PREFIX` (a directory with `include/rdma/fabric.h`) and `HWLOC_PREFIX` (`include/hwloc.h`) go before pkg-config,
//! which goes before the compiler's own search path.

use std::env;
use std::path::{Path, PathBuf};

/// What to install, per distribution. Printed whenever something is missing.
const INSTALL: &str = "\
    Debian, Ubuntu:  apt install libfabric-dev libhwloc-dev libclang-dev pkg-config
    Fedora, RHEL:    dnf install libfabric-devel hwloc-devel clang-devel pkgconf-pkg-config
    SUSE:            zypper install libfabric-devel hwloc-devel clang-devel pkg-config
    Arch:            pacman -S libfabric hwloc clang pkgconf
    macOS:           brew install libfabric hwloc llvm pkgconf
A libfabric or hwloc elsewhere: set LIBFABRIC_PREFIX or HWLOC_PREFIX to the directory that has include/.
A libclang elsewhere: set LIBCLANG_PATH to the directory that has libclang.so.";

/// Functions that libfabric exports as symbols, looked up when it is loaded (`src/library.rs`); all others are calls
/// through ops tables (`src/ops.rs`).
const FUNCTIONS: &str = "fi_(version|getinfo|freeinfo|dupinfo|fabric|strerror)";

const TYPES: &str = "fi_(info|tx_attr|rx_attr|ep_attr|domain_attr|fabric_attr|cq_attr|av_attr|mr_attr|msg|msg_rma|\
    rma_iov|rma_ioc|ioc|msg_atomic|msg_fetch|msg_compare|datatype|op|cq_data_entry|cq_err_entry|context|context2|ops|ops_.*|type|ep_type|av_type|mr_mode|progress|threading|\
    cq_format|wait_obj|resource_mgmt|fabric_attr|addr_t)|fid|fid_(fabric|domain|ep|cq|av|mr)|iovec";

const CONSTANTS: &str = "FI_.*";

/// The same of hwloc.
const HWLOC_FUNCTIONS: &str = "hwloc_topology_(init|load|destroy)|hwloc_get_(type_depth|nbobjs_by_depth|obj_by_depth)|hwloc_bitmap_next";
const HWLOC_TYPES: &str = "hwloc_(topology_t|obj|obj_t|obj_type_t|const_bitmap_t|get_type_depth_e)";
const HWLOC_CONSTANTS: &str = "HWLOC_(OBJ|TYPE_DEPTH)_.*";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=wrapper.h");
    println!("cargo:rerun-if-changed=hwloc-wrapper.h");
    for name in [
        "LIBFABRIC_PREFIX",
        "HWLOC_PREFIX",
        "LIBCLANG_PATH",
        "PKG_CONFIG_PATH",
    ] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    // docs.rs and `cargo check` on machines that only read the code still need headers: there is no fallback, since
    // declarations of another libfabric would be wrong in ways that only show when running.
    let libfabric = find("libfabric", "LIBFABRIC_PREFIX", "1.17", "rdma/fabric.h");
    generate(fabric_bindings(), "libfabric", &libfabric, "bindings.rs");
    let hwloc = find("hwloc", "HWLOC_PREFIX", "2.1", "hwloc.h");
    generate(hwloc_bindings(), "hwloc", &hwloc, "hwloc.rs");
}

/// The directories to look for a library's headers in. Nothing is linked: the library is loaded when it is first needed.
fn find(library: &str, prefix: &str, version: &str, header: &str) -> Vec<PathBuf> {
    if let Some(given) = env::var_os(prefix) {
        let include = PathBuf::from(given).join("include");
        let header = include.join(header);
        if !header.exists() {
            fail(&format!("{prefix} is set, but there is no {}", header.display()));
        }
        return vec![include];
    }
    if let Ok(library) = pkg_config::Config::new()
        .cargo_metadata(false)
        .atleast_version(version)
        .probe(library)
    {
        return library.include_paths;
    }
    let usual = [
        "/usr/include",
        "/usr/local/include",
        "/opt/homebrew/include",
        "/opt/local/include",
    ];
    match usual
        .map(Path::new)
        .into_iter()
        .find(|dir| dir.join(header).exists())
    {
        Some(dir) => vec![dir.to_path_buf()],
        None => fail(&format!(
            "{library} {version} or later was not found (neither by pkg-config nor as {header})"
        )),
    }
}

/// What both have in common.
fn bindings(header: &str) -> bindgen::Builder {
    bindgen::Builder::default()
        .header(header)
        .dynamic_library_name("Symbols")
        .dynamic_link_require_all(true)
        .prepend_enum_name(false)
        .derive_default(true)
        .generate_comments(false)
        .layout_tests(false)
        .merge_extern_blocks(true)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
}

fn fabric_bindings() -> bindgen::Builder {
    bindings("wrapper.h")
        .allowlist_function(FUNCTIONS)
        .allowlist_type(TYPES)
        .allowlist_var(CONSTANTS)
        .parse_callbacks(Box::new(MacroTypes))
}

fn hwloc_bindings() -> bindgen::Builder {
    bindings("hwloc-wrapper.h")
        .allowlist_function(HWLOC_FUNCTIONS)
        .allowlist_type(HWLOC_TYPES)
        .allowlist_var(HWLOC_CONSTANTS)
}

/// Writes what bindgen makes of a library's headers.
fn generate(builder: bindgen::Builder, library: &str, include_paths: &[PathBuf], file: &str) {
    let mut clang_args: Vec<String> = include_paths
        .iter()
        .map(|path| format!("-I{}", path.display()))
        .collect();
    if let Ok(extra) = env::var("BINDGEN_EXTRA_CLANG_ARGS") {
        clang_args.extend(extra.split_whitespace().map(str::to_string));
    }
    let builder = builder.clang_args(clang_args);
    // A missing libclang makes bindgen panic while it loads the library, so it is caught here.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| builder.generate()));
    std::panic::set_hook(hook);
    let bindings = match result {
        Ok(Ok(bindings)) => bindings,
        Ok(Err(error)) => fail(&format!("bindgen can't read {library}'s headers: {error}")),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()))
                .unwrap_or_default();
            fail(&format!(
                "libclang, which reads {library}'s headers, was not found or failed: {text}"
            ))
        }
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(file);
    if let Err(error) = bindings.write_to_file(&out) {
        fail(&format!("can't write {}: {error}", out.display()));
    }
}

/// Gives macros the type of the parameters that they are passed as, where bindgen would take the smallest that fits.
#[derive(Debug)]
struct MacroTypes;

impl bindgen::callbacks::ParseCallbacks for MacroTypes {
    fn int_macro(&self, name: &str, _value: i64) -> Option<bindgen::callbacks::IntKind> {
        use bindgen::callbacks::IntKind;
        // Error numbers, mr_mode bits and version numbers are C ints; all other macros are bits of 64-bit flags.
        let is_int = ["FI_E", "FI_MR_", "FI_MAJOR", "FI_MINOR"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        match name {
            "FI_EVENT" => Some(IntKind::U64),
            _ if is_int => Some(IntKind::I32),
            _ if name.starts_with("FI_") => Some(IntKind::U64),
            _ => None,
        }
    }
}

/// Ends the build with words instead of a panic's backtrace.
fn fail(what: &str) -> ! {
    eprintln!(
        "\nweft-libfabric-sys: {what}.\n\nWeft is built against the headers of libfabric and hwloc. Install:\n    {INSTALL}\n"
    );
    std::process::exit(1);
}
