//! How the processes of a file agree: each contributes what it wants, or the class of its error, and receives those of
//! all others.

use crate::base::error::{Class, Error, Result};
use crate::err;
use crate::objects::collective;
use crate::objects::communicator::Collective;

/// The error classes that processes send each other. Any other class becomes `MPI_ERR_OTHER`.
const CLASSES: [Class; 17] = [
    Class::Other,
    Class::Access,
    Class::Amode,
    Class::Arg,
    Class::BadFile,
    Class::FileExists,
    Class::FileInUse,
    Class::File,
    Class::Info,
    Class::Io,
    Class::NoMem,
    Class::NoSpace,
    Class::NoSuchFile,
    Class::NotSame,
    Class::Quota,
    Class::ReadOnly,
    Class::UnsupportedOperation,
];

/// An error of the process of a rank, as a number that is never 0.
fn encoded(rank: u32, error: &Error) -> u64 {
    let class = CLASSES.iter().position(|&class| class == error.class);
    (u64::from(rank) + 1) << 8 | class.unwrap_or(0) as u64
}

/// The error that such a number stands for at another process.
fn decoded(code: u64) -> Option<Error> {
    let rank = (code >> 8).checked_sub(1)?;
    let class = CLASSES.get((code & 0xff) as usize).unwrap_or(&Class::Other);
    let text = format!("the call failed at rank {rank} and therefore on all; that rank has the reason");
    Some(Error::new(*class, text))
}

/// Each process contributes a number or an error. All get the smallest and the largest number, or none does.
///
/// # Errors
/// This process's own; otherwise one of the class of another process's, which names its rank.
pub async fn agree(operation: &Collective, mine: Result<u64>) -> Result<(u64, u64)> {
    // The smallest of the numbers is the complement of the largest complement. An error takes no part in either.
    let (failure, number, complement) = match &mine {
        Ok(number) => (0, *number, !number),
        Err(error) => (encoded(operation.rank(), error), 0, 0),
    };
    let agreed = collective::largest(operation, [failure, number, complement]).await;
    mine?;
    let [failure, largest, complement] = agreed?;
    match decoded(failure) {
        Some(error) => Err(error),
        None => Ok((!complement, largest)),
    }
}

/// Succeeds on all processes, or on none.
///
/// # Errors
/// As for [`agree`].
pub async fn agree_on<T>(operation: &Collective, mine: Result<T>) -> Result<T> {
    let (mine, said) = match mine {
        Ok(mine) => (Some(mine), Ok(0)),
        Err(error) => (None, Err(error)),
    };
    agree(operation, said).await?;
    mine.ok_or_else(|| err!(Intern, "an error was lost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_comes_back() {
        for (rank, class) in (0..).zip(CLASSES) {
            let error = decoded(encoded(rank, &Error::new(class, ""))).expect("an error");
            assert_eq!(error.class, class);
            assert!(error.message.contains(&format!("rank {rank} ")), "{error}");
        }
        let error = decoded(encoded(u32::MAX, &Error::new(Class::Rank, ""))).expect("an error");
        assert_eq!(error.class, Class::Other);
        assert!(error.message.contains("rank 4294967295 "), "{error}");
        assert!(decoded(0).is_none());
    }
}
