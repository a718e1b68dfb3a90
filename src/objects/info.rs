//! Info objects (MPI 5.0 chapter 10): keys and values in the order in which the keys were set.

use parking_lot::Mutex;

/// See the module.
#[derive(Default, Debug)]
pub struct Info {
    entries: Mutex<Vec<(String, String)>>,
}

impl Info {
    /// An object with these entries.
    pub fn of(entries: impl IntoIterator<Item = (String, String)>) -> Info {
        Info {
            entries: Mutex::new(entries.into_iter().collect()),
        }
    }

    /// Sets a key; an old value is replaced.
    pub fn set(&self, key: &str, value: &str) {
        let mut entries = self.entries.lock();
        match entries.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value.to_string(),
            None => entries.push((key.to_string(), value.to_string())),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<String> {
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
    pub fn entries(&self) -> Vec<(String, String)> {
        self.entries.lock().clone()
    }
}
