//! Spawning by a PMIx server: `PMIx_Spawn`. The new processes find those that have spawned them by their environment.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::answers::{Answers, Shared};
use super::values::{self, text};
use super::{Pmix, failed, sys};
use crate::base::error::{Class, Error, Result};
use crate::err;
use crate::system::bootstrap::pmi1::ENV_PARENT;
use crate::system::bootstrap::spawn::{Plain, PlainCommand};
use crate::system::bootstrap::{Spawn, Spawned};

/// The environment variable with the number of a spawned program's command.
const ENV_COMMAND: &str = "WEFT_LAUNCH_COMMAND";
/// How long to wait for new processes, as nothing is told of those that end before they have come.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

/// The spawns of this process that were not told yet.
#[derive(Default)]
pub(super) struct Spawns {
    next: u32,
    known: Vec<(u32, UnderWay)>,
}

enum UnderWay {
    /// The server was asked; the outcome if it starts them all.
    Asked(Spawned),
    /// The outcome.
    Known(Spawned),
}

/// What the library gets to hand back, and what it reads until then.
struct Asked {
    shared: Arc<Shared>,
    spawn: u32,
    /// Of the whole job.
    attributes: [sys::Info; 1],
    apps: Vec<sys::App>,
    /// What `apps` points to.
    _kept: Vec<Kept>,
}

/// What an [`sys::App`] points to.
struct Kept {
    _texts: Vec<CString>,
    _lists: [Vec<*mut c_char>; 2],
    _infos: Vec<sys::Info>,
}

impl Pmix {
    /// Finds those that have spawned this job. The variables alone do not tell, as programs that a spawned rank starts inherit them.
    pub(super) fn find_parent(&mut self, environment: impl Fn(&str) -> Option<String>) -> Result<()> {
        let me = self.me;
        if let Some(port) = environment(ENV_PARENT)
            && self.ask(&me, "pmix.parent")?.is_some()
        {
            self.job.parent = Some(port);
            let number = environment(ENV_COMMAND).and_then(|number| number.parse().ok());
            self.job.appnum = number.or(self.job.appnum);
        }
        Ok(())
    }

    pub(super) fn begin_spawn(&mut self, spawn: &Spawn) -> Result<u32> {
        if self.over {
            return Err(err!(
                Spawn,
                "the launcher of this job takes no requests after the end of the first session"
            ));
        }
        let id = self.spawns.next;
        let under_way = match Plain::of(spawn)? {
            Plain::Nothing(outcome) => UnderWay::Known(outcome),
            Plain::Start { commands, outcome } => {
                self.answers
                    .begin_spawn(self.library, id, &spawn.port, &commands)?;
                UnderWay::Asked(outcome)
            }
        };
        self.spawns.next = id.wrapping_add(1);
        self.spawns.known.push((id, under_way));
        Ok(id)
    }

    pub(super) fn end_spawn(&mut self, spawn: u32) -> Result<Option<Spawned>> {
        let place = self.spawns.known.iter().position(|(id, _)| *id == spawn);
        let place = place.ok_or_else(|| err!(Intern, "there is no spawn {spawn}"))?;
        let status = match &self.spawns.known[place].1 {
            UnderWay::Known(_) => sys::SUCCESS,
            UnderWay::Asked(_) => match self.answers.spawn(spawn) {
                Some(status) => status,
                None => return Ok(None),
            },
        };
        let (_, UnderWay::Known(outcome) | UnderWay::Asked(outcome)) = self.spawns.known.swap_remove(place);
        match status {
            sys::SUCCESS => Ok(Some(outcome)),
            _ => Err(refused(self.library, status)),
        }
    }
}

/// The server starts nothing.
fn refused(library: &sys::Symbols, status: c_int) -> Error {
    if status == sys::NOT_SUPPORTED {
        return err!(
            Spawn,
            "the launcher of this job can't start further processes; Weft's mpiexec, Hydra and prterun can"
        );
    }
    Error {
        class: Class::Spawn,
        ..failed(library, status, "PMIx_Spawn")
    }
}

impl Answers {
    /// Asks for processes; see [`Answers::spawn`].
    fn begin_spawn(
        &self,
        library: &sys::Symbols,
        spawn: u32,
        port: &str,
        commands: &[PlainCommand],
    ) -> Result<()> {
        let (mut apps, mut kept) = (Vec::new(), Vec::new());
        for command in commands {
            let (app, pointed_to) = app(port, command)?;
            apps.push(app);
            kept.push(pointed_to);
        }
        let asked = Box::into_raw(Box::new(Asked {
            shared: self.shared(),
            spawn,
            // PRRTE would bind each process to a core that nobody else has, and refuse a job for which there are not enough.
            attributes: [values::of_text("pmix.bindto", c"none")],
            apps,
            _kept: kept,
        }));
        // SAFETY: attributes and programs live until the callback, which frees them with `asked`; the references end at once.
        let (attributes, apps) = unsafe { (&(*asked).attributes, &(*asked).apps) };
        // SAFETY: as above.
        let status = unsafe {
            (library.PMIx_Spawn_nb)(
                attributes.as_ptr(),
                attributes.len(),
                apps.as_ptr(),
                apps.len(),
                spawn_is_over,
                asked.cast(),
            )
        };
        if status != sys::SUCCESS {
            // SAFETY: the callback is not called in this case, so this is the only use.
            drop(unsafe { Box::from_raw(asked) });
            return match status {
                sys::OPERATION_SUCCEEDED => {
                    self.shared().tell_spawned(spawn, sys::SUCCESS);
                    Ok(())
                }
                _ => Err(refused(library, status)),
            };
        }
        Ok(())
    }
}

/// One program, and what it points to, which may be moved.
fn app(port: &str, command: &PlainCommand) -> Result<(sys::App, Kept)> {
    let program = text(&command.program)?;
    let directory = text(&command.wdir)?;
    let mut texts = Vec::new();
    let mut list = |all: Vec<CString>| {
        let mut pointers: Vec<*mut c_char> = all.iter().map(|text| text.as_ptr().cast_mut()).collect();
        pointers.push(ptr::null_mut());
        texts.extend(all);
        pointers
    };
    // The library changes the list if it does not begin with the program's name.
    let arguments = std::iter::once(&command.program).chain(&command.arguments);
    let mut arguments = list(arguments.map(|argument| text(argument)).collect::<Result<_>>()?);
    let own = [
        (ENV_PARENT.to_string(), port.to_string()),
        (ENV_COMMAND.to_string(), command.number.to_string()),
    ];
    let environment = command.env.iter().chain(&own);
    let mut environment = list(
        environment
            .map(|(name, value)| text(&format!("{name}={value}")))
            .collect::<Result<_>>()?,
    );
    let hosts = [
        ("pmix.host", &command.host),
        ("pmix.hostfile", &command.host_file),
    ];
    let mut infos = Vec::new();
    for (key, value) in hosts {
        if let Some(value) = value {
            let value = text(value)?;
            infos.push(values::of_text(key, &value));
            texts.push(value);
        }
    }
    let app = sys::App {
        command: program.as_ptr().cast_mut(),
        arguments: arguments.as_mut_ptr(),
        environment: environment.as_mut_ptr(),
        directory: directory.as_ptr().cast_mut(),
        count: command.count as c_int,
        // Where there are none, the library looks for the last one.
        infos: match infos.is_empty() {
            true => ptr::null_mut(),
            false => infos.as_mut_ptr(),
        },
        info_count: infos.len(),
    };
    texts.extend([program, directory]);
    let kept = Kept {
        _texts: texts,
        _lists: [arguments, environment],
        _infos: infos,
    };
    Ok((app, kept))
}

/// The library's thread: the processes run, or there was an error.
unsafe extern "C" fn spawn_is_over(status: c_int, _: *mut c_char, asked: *mut c_void) {
    // SAFETY: what `begin_spawn` has handed over, and the library calls once.
    let asked = unsafe { Box::from_raw(asked.cast::<Asked>()) };
    asked.shared.tell_spawned(asked.spawn, status);
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    /// The texts of a list that ends with a null pointer.
    fn texts(list: *mut *mut c_char) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            // SAFETY: the list goes on until its null pointer, and has texts.
            let entry = unsafe { list.add(all.len()).read() };
            if entry.is_null() {
                return all;
            }
            // SAFETY: as above.
            all.push(unsafe { CStr::from_ptr(entry) }.to_str().unwrap().to_string());
        }
    }

    #[test]
    fn a_program_has_what_was_asked_for() {
        let command = PlainCommand {
            number: 4,
            program: "/bin/child".into(),
            arguments: vec!["a b".into(), String::new()],
            count: 3,
            wdir: "/tmp".into(),
            host: Some("a,b".into()),
            host_file: None,
            env: vec![("A".into(), "b=c".into())],
        };
        let moved = [app("weft1/port", &command).unwrap()];
        let [(app, _kept)] = &moved;
        assert_eq!(texts(app.arguments), ["/bin/child", "a b", ""]);
        let environment = ["A=b=c", "WEFT_LAUNCH_PARENT=weft1/port", "WEFT_LAUNCH_COMMAND=4"];
        assert_eq!(texts(app.environment), environment);
        assert_eq!((app.count, app.info_count), (3, 1));
        // SAFETY: there is one, with a text.
        let host = unsafe { CStr::from_ptr((*app.infos).value.data.string) };
        assert_eq!(host.to_str(), Ok("a,b"));
    }
}
