//! Writes the bindings from the table, and an empty `libmpi_abi.so.1` to link with: the library is built on the C ABI, so whichever
//! library of that name is there at run time serves it.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn main() {
    for file in ["build.rs", "procedures.tsv", "callbacks.tsv"] {
        println!("cargo:rerun-if-changed={file}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("bindings.rs"), weft_fortran_generator::bindings::file())
        .expect("OUT_DIR can be written to");

    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(&compiler)
        .args([
            "-shared",
            "-nostdlib",
            "-Wl,-soname,libmpi_abi.so.1",
            "-x",
            "c",
            "/dev/null",
            "-o",
        ])
        .arg(out.join("libmpi_abi.so"))
        .status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "{} can't link a shared library: {status:?}",
        compiler.display()
    );
    println!("cargo:rustc-cdylib-link-arg=-Wl,--push-state,--no-as-needed");
    println!(
        "cargo:rustc-cdylib-link-arg={}",
        out.join("libmpi_abi.so").display()
    );
    println!("cargo:rustc-cdylib-link-arg=-Wl,--pop-state");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libweft_fortran.so.1");
    // Installed, it is beside the library that it needs.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN");
}
