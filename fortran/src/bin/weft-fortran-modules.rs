//! x
fn main() {
    let dir = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let c = weft_fortran_generator::modules::Compiler {
        descriptors: std::env::args().nth(2).is_none(),
    };
    use weft_fortran_generator::modules::*;
    std::fs::write(dir.join("weft_mpi_types.f90"), types::module(c)).unwrap();
    std::fs::write(dir.join("mpi_f08.f90"), f08::module(c)).unwrap();
    std::fs::write(dir.join("mpi.f90"), mpi::module(c)).unwrap();
    std::fs::write(dir.join("mpif.h"), include::file()).unwrap();
}
