//! Info objects (MPI 5.0 chapter 10): keys and values in the order in which the keys were set. Values are any bytes, as paths are.

use std::ffi::OsString;

use parking_lot::Mutex;

/// See the module.
#[derive(Default, Debug)]
pub struct Info {
    entries: Mutex<Vec<(String, OsString)>>,
}

impl Info {
    /// An object with these entries.
    pub fn of<V: Into<OsString>>(entries: impl IntoIterator<Item = (String, V)>) -> Info {
        let entries = entries.into_iter().map(|(key, value)| (key, value.into()));
        Info {
            entries: Mutex::new(entries.collect()),
        }
    }

    /// Sets a key; an old value is replaced.
    pub fn set(&self, key: &str, value: impl Into<OsString>) {
        let mut entries = self.entries.lock();
        match entries.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value.into(),
            None => entries.push((key.to_string(), value.into())),
        }
    }

    /// The value of a key, as text: what is none is marked as such in it.
    pub fn get(&self, key: &str) -> Option<String> {
        self.value(key).map(|value| value.to_string_lossy().into_owned())
    }

    /// The value of a key.
    pub fn value(&self, key: &str) -> Option<OsString> {
        self.entries
            .lock()
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value.clone())
    }

    /// Removes a key. `false`: it was not there.
    pub fn delete(&self, key: &str) -> bool {
        let mut entries = self.entries.lock();
        let before = entries.len();
        entries.retain(|(known, _)| known != key);
        entries.len() != before
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Whether there is no key.
    #[cfg(feature = "sim")]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key at a position.
    pub fn key(&self, at: usize) -> Option<String> {
        self.entries.lock().get(at).map(|(key, _)| key.clone())
    }

    /// All entries.
    pub fn entries(&self) -> Vec<(String, OsString)> {
        self.entries.lock().clone()
    }
}
