//! One declaration per procedure. [`mpi!`] makes of it the `MPI_` and the `PMPI_` symbol and, for `large`, the `_c` twins
//! of both, and adds what all procedures share: the library must be initialized, and an error goes to the object's error
//! handler.

/// ```text
/// mpi! {
///     /// Section 3.2.1.
///     large fn MPI_Send(buf: *const c_void, count: Count, …, comm: MPI_Comm) comm(comm) { … Ok(()) }
/// }
/// ```
///
/// - `large` or `small`: whether there is an `MPI_Send_c`. There, `Count` is `MPI_Count` and `Displ` `MPI_Aint`; in
///   the small form both are `int`. `Address` is `MPI_Aint` in the small form and `MPI_Count` in the other.
/// - `comm(comm)`: errors go to the handler of the communicator in that argument, and likewise with `session`, `win`
///   and `file`; `no_file`: to that of `MPI_FILE_NULL`; `local`: to that of `MPI_COMM_SELF`; `always`: likewise, and the procedure may be called before Init and after
///   Finalize.
/// - The body returns a `Result<()>`.
macro_rules! mpi {
    ($($(#[$meta:meta])* $width:ident fn $name:ident($($arg:ident: $type:ty),* $(,)?)
        $target:ident $(($handle:ident))? $body:block)+) => {
        $(mpi! { @$width [$(#[$meta])*] $name ($($arg: $type),*) [$target $($handle)?] $body })+
    };
    (@small $meta:tt $name:ident $args:tt $target:tt $body:block) => {
        const _: () = {
            mpi! { @export $meta (concat!(stringify!($name))) $args $target $body }
        };
    };
    (@large $meta:tt $name:ident $args:tt $target:tt $body:block) => {
        const _: () = {
            #[allow(dead_code)]
            type Count = ::std::ffi::c_int;
            #[allow(dead_code)]
            type Displ = ::std::ffi::c_int;
            #[allow(dead_code)]
            type Address = $crate::abi::common::types::MPI_Aint;
            mpi! { @export $meta (concat!(stringify!($name))) $args $target $body }
        };
        const _: () = {
            #[allow(dead_code)]
            type Count = $crate::abi::common::types::MPI_Count;
            #[allow(dead_code)]
            type Displ = $crate::abi::common::types::MPI_Aint;
            #[allow(dead_code)]
            type Address = $crate::abi::common::types::MPI_Count;
            mpi! { @export $meta (concat!(stringify!($name), "_c")) $args $target $body }
        };
    };
    (@export [$(#[$meta:meta])*] ($($symbol:tt)+) ($($arg:ident: $type:ty),*) [$target:ident $($handle:ident)?]
        $body:block) => {
        $(#[$meta])*
        #[inline]
        // `Count` may be the very type that it is converted to.
        #[allow(clippy::useless_conversion)]
        unsafe fn body($($arg: $type),*) -> $crate::base::error::Result<()> $body

        // All of it is in this function, so that debuggers and profilers show its name for a process that waits.
        #[inline(never)]
        #[unsafe(export_name = $($symbol)+)]
        unsafe extern "C" fn mpi($($arg: $type),*) -> ::std::ffi::c_int {
            $crate::abi::common::calls::$target($($handle,)? $($symbol)+, || {
                // SAFETY: the arguments are as the standard asks for; the body checks what can be checked.
                unsafe { body($($arg),*) }
            })
        }

        // Jumps to Weft's own `mpi`, whatever has replaced `MPI_Send` in the program: build.rs makes the linker bind it. A profiler's
        // `MPI_Send` that calls this would be called again otherwise.
        #[unsafe(export_name = concat!("P", $($symbol)+))]
        unsafe extern "C" fn pmpi($($arg: $type),*) -> ::std::ffi::c_int {
            // SAFETY: the caller's promises are passed on unchanged.
            unsafe { mpi($($arg),*) }
        }
    };
}
pub(crate) use mpi;
