//! Gives the shared library the soname that the MPI 5.0 standard ABI prescribes, and binds its calls of its own functions.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    // `PMPI_Send` calls `MPI_Send`, and must not get a profiler's (src/abi/common/procedure.rs).
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
}
