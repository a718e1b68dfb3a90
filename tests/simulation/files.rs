//! Files are opened on all processes or on none.

use std::path::Path;
use std::sync::Arc;

use weft::Class;
use weft::err;
use weft::objects::file::{Amode, File, Part};
use weft::sim::{Options, Simulation, check};

fn part(path: &Path, bits: i32) -> Part {
    Part {
        name: path.into(),
        amode: Amode::new(bits).expect("valid"),
        asked: None,
    }
}

/// What is wrong at one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    Nothing,
    /// It has no valid arguments.
    Arguments,
    /// It wants another access mode.
    Mode,
    /// It finds no such file.
    Path,
}

/// One process fails; then all do, nothing is left behind, and the next file is opened.
#[test]
fn for_all_or_none() {
    check("files_for_all_or_none", 75, |seed| {
        let size = 1 + seed as u32 % 6;
        let at = seed as u32 / 6 % size;
        let wrong = [Wrong::Nothing, Wrong::Arguments, Wrong::Mode, Wrong::Path][seed as usize / 36 % 4];
        let folder = tempfile::tempdir().expect("a folder");
        let (path, second) = (folder.path().join("first"), folder.path().join("second"));
        let create = Amode::CREATE | Amode::RDWR;
        let (first, next) = (path.clone(), second.clone());
        let results = Simulation::new(seed, size, Options::random(seed)).run(move |rank| {
            let (path, next) = (first.clone(), next.clone());
            async move {
                let mine = match wrong {
                    _ if rank.me().number() != at => Ok(part(&path, create)),
                    Wrong::Nothing => Ok(part(&path, create)),
                    Wrong::Arguments => Err(err!(Amode, "amode is 0")),
                    Wrong::Mode => Ok(part(&path, create | Amode::APPEND)),
                    Wrong::Path => Ok(part(&path.join("below"), create)),
                };
                let opened = File::open(rank.world().clone(), mine).await;
                let opened = opened.map(|file| file.communicator().context());
                let left = path.exists();
                let next = part(&next, create | Amode::DELETE_ON_CLOSE);
                let file: Arc<File> = File::open(rank.world().clone(), Ok(next))
                    .await
                    .expect("all are well");
                file.set_size(seed as i64).await.expect("all want the same");
                assert_eq!(file.size().expect("a size"), seed);
                let other = file.set_size(i64::from(rank.me().number() == at)).await;
                file.close().await.expect("all is well");
                (opened, left, other.err().map(|error| error.class))
            }
        });
        let mut contexts = Vec::new();
        for (rank, result) in results.into_iter().enumerate() {
            let (opened, left, other) = result.expect("it lived");
            assert_eq!(other, (size > 1).then_some(Class::NotSame));
            let alone = size == 1 && wrong == Wrong::Mode;
            match (opened, wrong) {
                (Ok(context), Wrong::Nothing) => contexts.push(context),
                (Ok(context), Wrong::Mode) if alone => contexts.push(context),
                (Err(error), _) => {
                    let class = match wrong {
                        Wrong::Arguments => Class::Amode,
                        Wrong::Mode => Class::NotSame,
                        // The first process makes the file that is then in the other's way.
                        Wrong::Path if at != 0 => Class::BadFile,
                        _ => Class::NoSuchFile,
                    };
                    assert_eq!(error.class, class, "{error}");
                    let elsewhere = rank as u32 != at && wrong != Wrong::Mode;
                    assert_eq!(
                        error.message.contains(&format!("rank {at} and")),
                        elsewhere,
                        "{error}"
                    );
                    assert!(!left, "rank {rank} finds a file that was not opened");
                }
                (opened, _) => panic!("rank {rank} of {size}, {wrong:?} at {at}: {opened:?}"),
            }
        }
        contexts.sort_unstable();
        contexts.dedup();
        assert!(contexts.len() <= 1);
        assert_eq!(path.exists(), !contexts.is_empty());
        assert!(!second.exists(), "it was deleted on close");
    });
}
