use super::*;
use crate::base::error::Class;

use std::cell::RefCell;

thread_local! {
    /// What the callbacks were called with: which, object, value.
    static CALLS: RefCell<Vec<(&'static str, usize, usize)>> = const { RefCell::new(Vec::new()) };
    /// Numbers of retired keys.
    static RETIRED: RefCell<Vec<i32>> = const { RefCell::new(Vec::new()) };
    /// The values whose callbacks fail.
    static FAILING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    /// What a delete callback works on.
    static OBJECT: RefCell<Option<(Arc<Attributes>, Arc<Keyval>)>> = const { RefCell::new(None) };
}

fn fails(value: usize) -> c_int {
    c_int::from(FAILING.with_borrow(|failing| failing.contains(&value))) * 77
}

/// The user's functions, told apart by their address.
const PLAIN: usize = 1;
const SETS_ANOTHER: usize = 2;

unsafe fn copy(function: usize, call: &Call) -> Result<Option<usize>, c_int> {
    assert_eq!(function, PLAIN);
    CALLS.with_borrow_mut(|calls| calls.push(("copy", call.object, call.value)));
    match fails(call.value) {
        0 => Ok(Some(call.value + call.extra_state)),
        code => Err(code),
    }
}

unsafe fn delete(function: usize, call: &Call) -> Result<(), c_int> {
    if function == SETS_ANOTHER {
        // The first time, an attribute under another key of the same object.
        if let Some((attributes, other)) = OBJECT.take() {
            // It can be read, and not be deleted once more.
            assert_eq!(attributes.get(call.key), Some(call.value));
            assert_eq!(attributes.delete(call.object, call.key), Ok(false));
            let copies = Attributes::default();
            attributes.copy_to(call.object, &copies).expect("no callback");
            assert!(copies.is_empty());
            attributes.set(call.object, &other, 99).expect("a valid key");
        }
        return Ok(());
    }
    CALLS.with_borrow_mut(|calls| calls.push(("delete", call.object, call.value)));
    match fails(call.value) {
        0 => Ok(()),
        code => Err(code),
    }
}

const COPY: CopyFunction = CopyFunction::User {
    function: PLAIN,
    caller: copy,
};

const fn delete_by(function: usize) -> DeleteFunction {
    DeleteFunction::User {
        function,
        caller: delete,
    }
}

fn keyval(number: i32) -> Arc<Keyval> {
    with(number, COPY, delete_by(PLAIN))
}

fn with(number: i32, copy: CopyFunction, delete: DeleteFunction) -> Arc<Keyval> {
    let retire = |number| RETIRED.with_borrow_mut(|retired| retired.push(number));
    // SAFETY: the functions are those above.
    let keyval = unsafe { Keyval::new(ObjectKind::Communicator, copy, delete, 1000, retire) };
    keyval.set_number(number);
    keyval
}

fn calls() -> Vec<(&'static str, usize, usize)> {
    CALLS.take()
}

fn retired() -> Vec<i32> {
    RETIRED.take()
}

#[test]
fn the_last_one_set_goes_first() {
    let attributes = Attributes::default();
    let keys: Vec<_> = (1..=4).map(keyval).collect();
    for (key, value) in [(2, 20), (0, 0), (3, 30), (1, 10)] {
        attributes.set(7, &keys[key], value).unwrap();
    }
    // Set again: the old value is deleted, and the attribute is now the latest.
    attributes.set(7, &keys[2], 21).unwrap();
    assert_eq!(calls(), [("delete", 7, 20)]);
    assert_eq!(attributes.get(3), Some(21));
    attributes.delete_all(7).unwrap();
    assert_eq!(
        calls(),
        [
            ("delete", 7, 21),
            ("delete", 7, 10),
            ("delete", 7, 30),
            ("delete", 7, 0)
        ]
    );
    assert_eq!(attributes.get(3), None);
    assert_eq!(attributes.delete(7, 3), Ok(false));
}

#[test]
fn a_failing_delete_callback_changes_nothing() {
    let attributes = Attributes::default();
    let keys: Vec<_> = (1..=3).map(keyval).collect();
    for (value, key) in keys.iter().enumerate() {
        attributes.set(7, key, value).unwrap();
    }
    FAILING.set(vec![1]);
    assert_eq!(attributes.delete(7, 2).unwrap_err().code, Some(77));
    assert_eq!(attributes.set(7, &keys[1], 5).unwrap_err().code, Some(77));
    assert_eq!(attributes.get(2), Some(1));
    assert_eq!(attributes.delete_all(7).unwrap_err().code, Some(77));
    assert_eq!([1, 2, 3].map(|key| attributes.get(key)), [Some(0), Some(1), None]);
    calls();
    FAILING.take();
    attributes.delete_all(7).unwrap();
    assert_eq!(calls(), [("delete", 7, 1), ("delete", 7, 0)]);
}

#[test]
fn copies_are_what_the_callbacks_say() {
    let (old, new) = (Attributes::default(), Attributes::default());
    let never = with(1, CopyFunction::Never, delete_by(PLAIN));
    let same = with(2, CopyFunction::Same, DeleteFunction::Nothing);
    let own = keyval(3);
    for (value, key) in [&never, &same, &own].into_iter().enumerate() {
        old.set(7, key, value).unwrap();
    }
    old.copy_to(7, &new).unwrap();
    assert_eq!(calls(), [("copy", 7, 2)]);
    assert_eq!([1, 2, 3].map(|key| new.get(key)), [None, Some(1), Some(1002)]);
    new.delete_all(8).unwrap();
    assert_eq!(calls(), [("delete", 8, 1002)]);
    assert_eq!([1, 2, 3].map(|key| old.get(key)), [Some(0), Some(1), Some(2)]);
}

#[test]
fn a_failing_copy_callback_leaks_nothing() {
    let (old, new) = (Attributes::default(), Attributes::default());
    let keys: Vec<_> = (1..=3).map(keyval).collect();
    for (value, key) in keys.iter().enumerate() {
        old.set(7, key, value).unwrap();
    }
    FAILING.set(vec![1, 1000]);
    assert_eq!(old.copy_to(7, &new).unwrap_err().code, Some(77));
    assert_eq!([1, 2, 3].map(|key| new.get(key)), [Some(1000), None, None]);
    calls();
    new.discard(8);
    assert_eq!(calls(), [("delete", 8, 1000)]);
    assert_eq!(new.get(1), None);
    old.discard(7);
    drop((old, new));
    keys.iter().for_each(|key| key.free());
    assert_eq!(retired(), [1, 2, 3]);
}

#[test]
fn a_freed_key_lives_until_its_last_attribute_goes() {
    let (one, other) = (Attributes::default(), Attributes::default());
    let key = keyval(5);
    one.set(7, &key, 1).unwrap();
    one.copy_to(7, &other).unwrap();
    key.free();
    // Again, as a delete callback may do.
    key.free();
    assert_eq!((one.get(5), other.get(5)), (Some(1), Some(1001)));
    one.delete(7, 5).unwrap();
    assert_eq!(retired(), []);
    drop(other);
    assert_eq!(retired(), [5]);
    assert_eq!(one.set(7, &key, 2).unwrap_err().class, Class::Keyval);
}

#[test]
fn a_callback_may_use_the_same_object() {
    let attributes = Arc::new(Attributes::default());
    let first = with(1, CopyFunction::Same, delete_by(SETS_ANOTHER));
    let other = keyval(2);
    attributes.set(7, &first, 1).unwrap();
    OBJECT.set(Some((attributes.clone(), other)));
    attributes.delete_all(7).unwrap();
    // What the callback set has gone, too.
    assert_eq!(calls(), [("delete", 7, 99)]);
    assert!(attributes.is_empty());
    // In its own place, once.
    attributes.set(7, &first, 1).unwrap();
    OBJECT.set(Some((attributes.clone(), first.clone())));
    assert_eq!(attributes.delete(7, 1), Ok(true));
    assert_eq!(attributes.get(1), Some(99));
    OBJECT.set(Some((attributes.clone(), first.clone())));
    attributes.set(7, &first, 2).unwrap();
    assert_eq!(attributes.get(1), Some(2));
    attributes.discard(7);
    assert!(attributes.is_empty());
}

/// How often the callbacks of [`many_threads_delete_each_value_once`] got each value.
static DELETIONS: [AtomicUsize; 4 * 1000] = [const { AtomicUsize::new(0) }; 4000];

unsafe fn count(function: usize, call: &Call) -> Result<(), c_int> {
    assert_eq!(function, PLAIN);
    DELETIONS[call.value].fetch_add(1, Ordering::Relaxed);
    // Others come in between.
    std::thread::yield_now();
    Ok(())
}

#[test]
fn many_threads_delete_each_value_once() {
    let attributes = Attributes::default();
    let delete = DeleteFunction::User {
        function: PLAIN,
        caller: count,
    };
    let keys = [1, 2].map(|number| with(number, CopyFunction::Same, delete));
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (attributes, keys) = (&attributes, &keys);
            threads.spawn(move || {
                for value in thread * 1000..(thread + 1) * 1000 {
                    attributes.set(7, &keys[value % 2], value).unwrap();
                    match value % 5 {
                        0 => drop(attributes.delete(7, 1)),
                        1 => attributes.delete_all(7).unwrap(),
                        2 => attributes.copy_to(7, &Attributes::default()).unwrap(),
                        _ => assert!(attributes.get(2).is_none_or(|value| value < 4000)),
                    }
                }
            });
        }
    });
    attributes.delete_all(7).unwrap();
    assert!(attributes.is_empty());
    for (value, times) in DELETIONS.iter().enumerate() {
        assert_eq!(times.load(Ordering::Relaxed), 1, "value {value}");
    }
    drop(attributes);
    keys.iter().for_each(|key| key.free());
}
