//! An MPI library: how its programs are compiled, started, and told what to talk over.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::job::{self, Failure, Job};
use crate::measure::Measure;
use crate::options::Options;
use crate::programs;

/// The file that an MPI library of the standard ABI is.
const ABI: &str = "libmpi_abi.so.1";

/// What is set for every run. Open MPI refuses to run as root, and with more ranks than cores, unless told; its versions
/// 4 and 5 differ in how. Nobody else reads these.
const ALWAYS: &[(&str, &str)] = &[
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
];

/// What chooses a provider, and must not leak into runs that leave the choice to the library.
const CHOOSERS: &[&str] = &["WEFT_PROVIDER", "WEFT_LANES", "FI_PROVIDER"];

/// `--peer NAME=LAUNCHER[,LIBRARY]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    name: String,
    launcher: PathBuf,
    /// Folders, as in `LD_LIBRARY_PATH`.
    library: Option<OsString>,
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        let expected = "NAME=LAUNCHER or NAME=LAUNCHER,LIBRARY is expected";
        let (name, rest) = text.split_once('=').ok_or(expected)?;
        let (launcher, library) = match rest.split_once(',') {
            Some((launcher, library)) => (launcher, Some(library)),
            None => (rest, None),
        };
        // The name stands in tables and in Markdown.
        let good = !name.trim().is_empty() && !name.contains(['|', '\n', '`', '<']);
        if !good || launcher.is_empty() || library.is_some_and(str::is_empty) {
            return Err(expected.into());
        }
        Ok(Peer {
            name: name.trim().into(),
            launcher: launcher.into(),
            library: library.map(Into::into),
        })
    }
}

/// Whose library it is, which decides the settings that it understands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Vendor {
    Weft,
    Mpich,
    Intel,
    OpenMpi,
    Other,
}

impl Vendor {
    /// By the text of `MPI_Get_library_version`.
    fn of(version: &str) -> Vendor {
        let known = [
            ("Weft", Vendor::Weft),
            ("MPICH", Vendor::Mpich),
            ("Intel(R) MPI", Vendor::Intel),
            ("Open MPI", Vendor::OpenMpi),
        ];
        known
            .into_iter()
            .find(|(start, _)| version.starts_with(start))
            .map_or(Vendor::Other, |(_, kind)| kind)
    }

    /// The settings that make it talk over what `--over` says; `None`: it has none.
    fn settings(self, over: &str) -> Option<Vec<(&'static str, String)>> {
        if over == "own" {
            return Some(Vec::new());
        }
        // libfabric 2.x, which the others bring, has no `net`: it has become `tcp`. Weft itself knows.
        let theirs = if over == "net" { "tcp" } else { over }.to_string();
        Some(match self {
            // Windows of one host would be shared memory all the same, as those of Open MPI below.
            Vendor::Weft => vec![
                ("WEFT_PROVIDER", over.to_string()),
                ("WEFT_WINDOWS", "messages".into()),
            ],
            // Without these MPICH would use UCX, and its own shared memory.
            Vendor::Mpich => vec![
                ("MPIR_CVAR_CH4_NETMOD", "ofi".into()),
                ("MPIR_CVAR_NOLOCAL", "1".into()),
                ("FI_PROVIDER", theirs),
            ],
            // Without the first, its collectives go through shared memory whatever the fabric.
            Vendor::Intel => vec![
                ("I_MPI_COLL_INTRANODE", "pt2pt".into()),
                ("I_MPI_FABRICS", "ofi".into()),
                ("FI_PROVIDER", theirs),
            ],
            // It reaches TCP without libfabric.
            Vendor::OpenMpi if theirs == "tcp" => {
                vec![
                    ("OMPI_MCA_pml", "ob1".into()),
                    ("OMPI_MCA_btl", "tcp,self".into()),
                    ("OMPI_MCA_osc", "rdma".into()),
                ]
            }
            Vendor::OpenMpi | Vendor::Other => return None,
        })
    }
}

/// An MPI library that has been seen to run.
#[derive(Debug)]
pub struct Library {
    /// What it is called in results.
    pub name: String,
    /// What it says of itself, in one line.
    pub version: String,
    kind: Vendor,
    launcher: PathBuf,
    path: OsString,
    programs: PathBuf,
    limit: Duration,
    /// How long two ranks of it took to start, exchange a message over its own choice, and end.
    pub start: Duration,
}

/// Why a library's programs can't be run over something.
#[derive(Debug)]
pub enum Cannot {
    /// It has no setting for that.
    Choose,
    /// It was tried.
    Run(Failure),
}

impl Library {
    /// Weft and all peers, in this order, with their programs compiled below `folder`.
    ///
    /// # Errors
    ///
    /// One of them is not there, or its programs can't be compiled or run.
    pub fn open_all(options: &Options, folder: &Path) -> Result<Vec<Library>, String> {
        let prefix = options.weft.as_deref().ok_or("--weft PREFIX is missing")?;
        let weft = Peer {
            name: "Weft".into(),
            launcher: prefix.join("bin/mpiexec"),
            library: Some(prefix.join("lib").into()),
        };
        let mut peers = Vec::new();
        for peer in std::iter::once(&weft).chain(&options.peers) {
            peers.push(peer.absolute()?);
        }
        for (index, peer) in peers.iter().enumerate() {
            peer.check()?;
            if peers[..index].iter().any(|other| other.name == peer.name) {
                return Err(format!("two libraries are called {}", peer.name));
            }
        }
        let shared = programs::compile(&peers[0].compiler(), &folder.join("abi"))?;
        let mut libraries = Vec::new();
        for (index, peer) in peers.iter().enumerate() {
            let programs = match peer.library {
                Some(_) => shared.clone(),
                None => programs::compile(&peer.compiler(), &folder.join(index.to_string()))?,
            };
            let mut library = Library {
                name: peer.name.clone(),
                version: String::new(),
                kind: Vendor::Other,
                launcher: peer.launcher.clone(),
                path: peer.library_path(),
                programs,
                limit: Duration::from_secs(options.limit),
                start: Duration::ZERO,
            };
            let start = Instant::now();
            library.version = library
                .probe("own")
                .map_err(|why| format!("{} does not run.\n{}", peer.name, why.details()))?;
            library.start = start.elapsed();
            library.kind = Vendor::of(&library.version);
            libraries.push(library);
        }
        if libraries[0].kind != Vendor::Weft {
            return Err(format!(
                "{} has not Weft, but {}",
                prefix.display(),
                libraries[0].version
            ));
        }
        Ok(libraries)
    }

    /// Whether it is Weft, of whatever build.
    pub fn is_weft(&self) -> bool {
        self.kind == Vendor::Weft
    }

    /// Runs two ranks that exchange a message; what the library calls itself.
    pub fn probe(&self, over: &str) -> Result<String, Cannot> {
        let settings = self.settings(over).ok_or(Cannot::Choose)?;
        let job = self.job("probe", &[], 2, settings);
        let printed = job.run().map_err(Cannot::Run)?;
        let version = printed.lines().find_map(|line| line.strip_prefix("probe "));
        match version {
            // Open MPI also says who made the package.
            Some(version) => {
                let short = version.split(", package").next().unwrap_or(version);
                Ok(short.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            None => Err(Cannot::Run(job.failure(
                "it did not print its version".into(),
                String::new(),
                printed,
            ))),
        }
    }

    /// Why a measure would not be made over what `--over` says, although the library talks over that.
    pub fn strays(&self, measure: &Measure, over: &str) -> Option<&'static str> {
        let stays = over == "own" || self.kind != Vendor::OpenMpi || !measure.allocates_window();
        (!stays).then_some("what its `MPI_Win_allocate` gives to ranks of one host is shared memory, and it has no setting against that")
    }

    /// The job that runs a program over what `--over` says, if the library can.
    pub fn run(&self, program: &str, arguments: &[String], ranks: u32, over: &str) -> Option<Job> {
        Some(self.job(program, arguments, ranks, self.settings(over)?))
    }

    fn settings(&self, over: &str) -> Option<Vec<(&'static str, String)>> {
        self.kind.settings(over)
    }

    fn job(
        &self,
        program: &str,
        arguments: &[String],
        ranks: u32,
        settings: Vec<(&'static str, String)>,
    ) -> Job {
        let mut environment: Vec<(&str, OsString)> = vec![("LD_LIBRARY_PATH", self.path.clone())];
        environment.extend(ALWAYS.iter().map(|&(name, value)| (name, value.into())));
        environment.extend(settings.into_iter().map(|(name, value)| (name, value.into())));
        let mut words: Vec<OsString> = vec![
            self.launcher.clone().into(),
            "-n".into(),
            ranks.to_string().into(),
        ];
        words.push(self.programs.join(program).into());
        words.extend(arguments.iter().map(Into::into));
        Job {
            words,
            environment,
            unset: CHOOSERS,
            limit: self.limit,
        }
    }
}

impl Cannot {
    /// In one line.
    pub fn reason(&self) -> String {
        match self {
            Cannot::Choose => "it has no setting for that".into(),
            Cannot::Run(failure) => match failure.said.lines().last() {
                Some(line) => format!("{} ({})", failure.what, line.trim()),
                None => failure.what.clone(),
            },
        }
    }

    /// With all that is known.
    pub fn details(&self) -> String {
        match self {
            Cannot::Choose => self.reason(),
            Cannot::Run(failure) => failure.to_string(),
        }
    }
}

impl Peer {
    /// The same with whole paths, as compilers and ranks may run in other folders. A launcher's name alone is looked for
    /// in `PATH`, also when it is started, so it stays.
    fn absolute(&self) -> Result<Peer, String> {
        let whole = |path: &Path| {
            std::path::absolute(path).map_err(|error| format!("{}: {}: {error}", self.name, path.display()))
        };
        let launcher = match self.launcher.components().count() {
            0 | 1 => self.launcher.clone(),
            _ => whole(&self.launcher)?,
        };
        let library = match &self.library {
            Some(folders) => {
                let folders: Result<Vec<_>, _> =
                    env::split_paths(folders).map(|folder| whole(&folder)).collect();
                Some(env::join_paths(folders?).map_err(|error| format!("{}: {error}", self.name))?)
            }
            None => None,
        };
        Ok(Peer {
            name: self.name.clone(),
            launcher,
            library,
        })
    }

    fn compiler(&self) -> PathBuf {
        self.launcher.with_file_name("mpicc")
    }

    /// Whether everything that was named is there.
    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if !job::is_program(&self.launcher) {
            return Err(format!(
                "{name}: there is no launcher {}",
                self.launcher.display()
            ));
        }
        match &self.library {
            Some(folders) if !env::split_paths(folders).any(|folder| folder.join(ABI).is_file()) => Err(
                format!("{name}: there is no {ABI} in {}", folders.to_string_lossy()),
            ),
            None if !job::is_program(&self.compiler()) => Err(format!(
                "{name}: no LIBRARY was named, and there is no {} to compile its programs",
                self.compiler().display()
            )),
            _ => Ok(()),
        }
    }

    /// `LD_LIBRARY_PATH` of its runs: its own folders before those that are there already.
    fn library_path(&self) -> OsString {
        let beside = || match self.launcher.parent() {
            // A name alone, found in `PATH`: its library has to be found without help too.
            None => None,
            Some(bin) if bin.as_os_str().is_empty() => None,
            Some(bin) => Some(bin.join("../lib").into()),
        };
        let own = self.library.clone().or_else(beside);
        let inherited = env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
        let parts: Vec<OsString> = own.into_iter().chain(inherited).collect();
        parts.join(OsStr::new(":"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_a_name_a_launcher_and_perhaps_a_library() {
        let peer = |text: &str| text.parse::<Peer>();
        let open: Peer = peer("Open MPI=/opt/openmpi/bin/mpiexec").unwrap();
        assert_eq!((open.name.as_str(), open.library.clone()), ("Open MPI", None));
        assert_eq!(open.compiler(), Path::new("/opt/openmpi/bin/mpicc"));
        let weft = peer("Weft, 2.x=/opt/weft/bin/mpiexec,/opt/weft/lib:/opt/fabric").unwrap();
        assert_eq!(weft.name, "Weft, 2.x");
        assert_eq!(weft.launcher, Path::new("/opt/weft/bin/mpiexec"));
        assert_eq!(weft.library, Some("/opt/weft/lib:/opt/fabric".into()));
        for wrong in [
            "",
            "MPICH",
            "=/bin/true",
            "MPICH=",
            "MPICH=,/lib",
            "MPICH=/bin/true,",
            "a|b=/bin/true",
        ] {
            assert!(peer(wrong).unwrap_err().contains("NAME=LAUNCHER"), "{wrong}");
        }
    }

    #[test]
    fn what_a_peer_lacks_is_named() {
        let check = |text: &str| text.parse::<Peer>().unwrap().check();
        assert_eq!(
            check("A=/nowhere/mpiexec"),
            Err("A: there is no launcher /nowhere/mpiexec".into())
        );
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        let error = check(&format!("A=/bin/sh,{at}")).unwrap_err();
        assert_eq!(error, format!("A: there is no libmpi_abi.so.1 in {at}"));
        std::fs::write(folder.path().join(ABI), "").unwrap();
        assert_eq!(check(&format!("A=/bin/sh,/nowhere:{at}")), Ok(()));
        // A launcher without a compiler beside it.
        let launcher = folder.path().join("mpiexec");
        std::os::unix::fs::symlink("/bin/sh", &launcher).unwrap();
        let error = check(&format!("A={}", launcher.display())).unwrap_err();
        assert!(error.contains("no LIBRARY") && error.contains("mpicc"), "{error}");
    }

    #[test]
    fn why_a_library_cannot_be_measured_is_said_in_a_line() {
        let failure = |said: &str| Failure {
            command: "mpiexec -n 2 probe".into(),
            what: "it ended with status 1".into(),
            said: said.into(),
            printed: String::new(),
        };
        let reason = |said: &str| Cannot::Run(failure(said)).reason();
        assert_eq!(reason(""), "it ended with status 1");
        assert_eq!(
            reason("one\n  no provider"),
            "it ended with status 1 (no provider)"
        );
    }

    #[test]
    fn libraries_are_known_by_what_they_say() {
        assert_eq!(Vendor::of("Weft 0.1.0 (MPI 5.0)"), Vendor::Weft);
        assert_eq!(Vendor::of("MPICH Version:      5.0.2"), Vendor::Mpich);
        assert_eq!(
            Vendor::of("Intel(R) MPI Library 2021.16 for Linux* OS"),
            Vendor::Intel
        );
        assert_eq!(Vendor::of("Open MPI v5.0.8, package: Open MPI"), Vendor::OpenMpi);
        assert_eq!(Vendor::of("MVAPICH 4.0"), Vendor::Other);
    }

    #[test]
    fn each_library_is_told_in_its_own_words() {
        let settings = |kind: Vendor, over: &str| {
            let found = kind.settings(over)?;
            Some(
                found
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect::<Vec<_>>()
                    .join(" "),
            )
        };
        assert_eq!(
            settings(Vendor::Weft, "net").unwrap(),
            "WEFT_PROVIDER=net WEFT_WINDOWS=messages"
        );
        assert!(
            settings(Vendor::Mpich, "net")
                .unwrap()
                .ends_with("FI_PROVIDER=tcp")
        );
        assert!(
            settings(Vendor::Intel, "tcp;ofi_rxm")
                .unwrap()
                .ends_with("FI_PROVIDER=tcp;ofi_rxm")
        );
        assert!(settings(Vendor::OpenMpi, "net").unwrap().contains("tcp,self"));
        assert_eq!(settings(Vendor::OpenMpi, "tcp;ofi_rxm"), None);
        assert_eq!(settings(Vendor::Other, "tcp"), None);
        assert_eq!(settings(Vendor::Other, "own").unwrap(), "");
    }
}
