//! `weft-fortran-modules`: compiles the modules `mpi_f08` and `mpi` for a Fortran compiler, where `mpifort` looks for them.

#[path = "../common/pages.rs"]
mod pages;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use weft_fortran_generator::compile;
use weft_fortran_generator::modules::Compiler;

/// Compiles the Fortran modules mpi_f08 and mpi for a compiler, and puts them where mpifort looks for those of this compiler and
/// version.
///
/// Module files belong to one compiler, so this is to be run once for each. An installation has done it for gfortran if that was
/// there.
#[derive(Parser)]
#[command(name = "weft-fortran-modules", version)]
struct Options {
    /// The compiler, as a command
    #[arg(value_name = "FC", default_value = "gfortran")]
    compiler: String,
    /// Put them there instead
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Print the folder for the compiler's modules, and do nothing
    #[arg(long)]
    print_folder: bool,
    /// Write the sources of the modules and mpif.h there instead, and compile nothing
    #[arg(long, value_name = "DIR")]
    sources: Option<PathBuf>,
    /// With --sources: for a compiler without TYPE(*), DIMENSION(..)
    #[arg(long, requires = "sources")]
    without_descriptors: bool,
    /// The folder of Weft's libraries, if it is not beside this program's
    #[arg(long, value_name = "DIR")]
    libraries: Option<PathBuf>,
    /// Print a manual page or a shell's completion
    #[arg(long, hide = true)]
    generate: Option<pages::Page>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(said) => match std::io::stdout().write_all(said.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "weft-fortran-modules: {}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// Does what is asked for, and returns what to print.
fn run(options: &Options) -> Result<String, String> {
    if let Some(page) = options.generate {
        return Ok(pages::render(page, Options::command()));
    }
    if let Some(folder) = &options.sources {
        let compiler = Compiler {
            descriptors: !options.without_descriptors,
        };
        compile::write_sources(folder, compiler).map_err(|error| format!("{}: {error}", folder.display()))?;
        return Ok(String::new());
    }
    let libraries = match &options.libraries {
        Some(folder) => folder.clone(),
        None => beside_this_program()?,
    };
    let folder = match &options.folder {
        Some(folder) => folder.clone(),
        None => libraries
            .join("weft-fortran")
            .join(compile::folder_name(&options.compiler)?),
    };
    if options.print_folder {
        return Ok(format!("{}\n", folder.display()));
    }
    let built = compile::build(&options.compiler, &libraries, &folder)?;
    let mut said = format!("modules for {} are in {}\n", built.compiler, folder.display());
    if let Some(why) = built.without_descriptors {
        said += &format!(
            "This compiler can't pass array sections as they are, so MPI_SUBARRAYS_SUPPORTED is false: {}\n",
            why.trim_end()
        );
    }
    Ok(said)
}

/// The folder of the libraries of the installation that this program belongs to.
fn beside_this_program() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let prefix = program.parent().and_then(Path::parent);
    prefix
        .map(|prefix| prefix.join("lib"))
        .ok_or_else(|| format!("{} lies in no prefix", program.display()))
}
