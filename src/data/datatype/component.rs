//! What accumulates work on: the predefined datatype that all basic components of a type are of (MPI 5.0 section 12.3.4).
//!
//! The signature does not tell: it has a pair type's value and index as two elements. So each constructor keeps which predefined type
//! its old types are made of.

use super::Datatype;
use super::basic::Element;
use crate::base::error::Result;
use crate::err;
use std::sync::Arc;

/// The predefined type of all components of a derived type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Component {
    /// There are no components.
    None,
    /// All are of this one, which has a name.
    One(&'static Arc<Datatype>),
    /// They are of several.
    Several,
}

impl Component {
    /// That of a type made of these.
    pub(super) fn of<'a>(old: impl IntoIterator<Item = &'a Arc<Datatype>>) -> Component {
        let mut all = Component::None;
        for part in old.into_iter().filter(|part| part.size > 0) {
            all = match (all, part.all_components()) {
                (all, Component::None) => all,
                (Component::None, part) => part,
                (Component::One(one), Component::One(other)) if is_same(one, other) => all,
                _ => return Component::Several,
            };
        }
        all
    }
}

/// Whether two predefined types have the same elements: `MPI_INT` and `MPI_INT32_T` do. The standard wants the very same type; but
/// operations do the same with both.
fn is_same(one: &Datatype, other: &Datatype) -> bool {
    let parts = |datatype: &Datatype| match datatype.element {
        Some(Element::Basic(basic)) => Some((basic.category, basic.representation, None)),
        Some(Element::Pair(value, index, _)) => {
            Some((value.category, value.representation, Some(index.representation)))
        }
        None => None,
    };
    one.element.is_some() && parts(one) == parts(other)
}

impl Datatype {
    pub(super) fn all_components(&self) -> Component {
        match self.predefined {
            true => self.named().map_or(Component::Several, Component::One),
            false => self.component,
        }
    }

    /// The predefined datatype that all components of the type are of; `None`: there are none, or they are of several. It has a name,
    /// and so a handle that is the same in all processes: for an unnamed type of Fortran's it is one of the same elements.
    #[inline]
    pub fn component(&self) -> Option<&'static Arc<Datatype>> {
        match self.all_components() {
            Component::One(one) => Some(one),
            Component::None | Component::Several => None,
        }
    }

    /// A predefined type as one that has a name.
    #[inline]
    fn named(&self) -> Option<&'static Arc<Datatype>> {
        match Datatype::predefined(self.handle()) {
            Some(named) if std::ptr::eq(Arc::as_ptr(named), self) => Some(named),
            _ => Datatype::named_predefined().find(|named| is_same(named, self)),
        }
    }

    /// The predefined datatype whose elements an accumulate combines.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE` where one of the two has no component, or several, or the two have different ones.
    pub fn accumulated(origin: &Datatype, target: &Datatype) -> Result<&'static Arc<Datatype>> {
        let component = |datatype: &Datatype, argument: &str| {
            datatype.component().ok_or_else(|| {
                err!(
                    Type,
                    "{argument} is {}, which is made of {}; an accumulate takes datatypes that are made of one predefined datatype",
                    datatype.describe(),
                    match datatype.size {
                        0 => "none",
                        _ => "several predefined datatypes",
                    }
                )
            })
        };
        let (from, to) = (
            component(origin, "origin_datatype")?,
            component(target, "target_datatype")?,
        );
        match is_same(from, to) {
            true => Ok(to),
            false => Err(err!(
                Type,
                "origin_datatype is made of {} and target_datatype of {}; an accumulate takes two of the same predefined datatype",
                from.describe(),
                to.describe()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    fn named(name: &str) -> &'static Arc<Datatype> {
        Datatype::all_predefined()
            .find(|(_, datatype)| datatype.name() == name)
            .expect("a predefined type")
            .1
    }

    fn name_of(datatype: &Datatype) -> Option<String> {
        Some(datatype.component()?.name().into_owned())
    }

    #[test]
    fn every_predefined_type_is_its_own_component() {
        for (handle, datatype) in Datatype::all_predefined() {
            assert_eq!(datatype.component().map(|one| one.handle()), Some(handle));
            let derived = [
                Datatype::dup(datatype),
                Datatype::contiguous(3, datatype).unwrap(),
                Datatype::vector(3, 2, 5, datatype).unwrap(),
                Datatype::resized(datatype, -8, 64).unwrap(),
                Datatype::indexed(&[1, 0, 2], &[5, 1, 9], datatype).unwrap(),
                Datatype::struct_(&[1, 2], &[0, 100], &[datatype.clone(), Datatype::dup(datatype)]).unwrap(),
                Datatype::subarray(&[4, 4], &[2, 2], &[1, 1], super::super::Order::C, datatype).unwrap(),
            ];
            for derived in derived {
                let second = Datatype::second(&derived);
                for one in [&derived, &second, &Datatype::contiguous(2, &derived).unwrap()] {
                    assert_eq!(one.component().map(|one| one.handle()), Some(handle));
                }
            }
        }
    }

    #[test]
    fn a_pair_is_not_its_parts() {
        let (pair, int) = (named("MPI_2INT"), named("MPI_INT"));
        let pairs = Datatype::contiguous(2, pair).unwrap();
        assert_eq!(name_of(&pairs).as_deref(), Some("MPI_2INT"));
        let mixed = Datatype::struct_(&[1, 1], &[0, 16], &[pair.clone(), int.clone()]).unwrap();
        assert_eq!(name_of(&mixed), None);
        let error = Datatype::accumulated(int, &pairs).unwrap_err();
        assert_eq!(error.class, Class::Type);
        assert_eq!(
            error.message,
            "origin_datatype is made of MPI_INT and target_datatype of MPI_2INT; an accumulate takes two of the same predefined datatype"
        );
    }

    #[test]
    fn parts_without_data_do_not_count() {
        let (int, double) = (named("MPI_INT"), named("MPI_DOUBLE"));
        let nothing = Datatype::contiguous(0, double).unwrap();
        let types = [int.clone(), double.clone(), nothing.clone()];
        let ints = Datatype::struct_(&[3, 0, 2], &[0, 16, 32], &types).unwrap();
        assert_eq!(name_of(&ints).as_deref(), Some("MPI_INT"));
        let both = Datatype::struct_(&[3, 1, 2], &[0, 16, 32], &types).unwrap();
        assert_eq!((name_of(&both), name_of(&nothing)), (None, None));
        for bad in [&both, &nothing] {
            for (origin, target) in [(int, bad), (bad, int)] {
                let error = Datatype::accumulated(origin, target).unwrap_err();
                assert_eq!(error.class, Class::Type);
            }
        }
    }

    #[test]
    fn names_of_the_same_elements_agree() {
        let agreed = |one, other| Datatype::accumulated(named(one), named(other)).map(|one| one.handle());
        assert_eq!(agreed("MPI_INT32_T", "MPI_INT"), Ok(named("MPI_INT").handle()));
        assert!(agreed("MPI_INTEGER", "MPI_INT").is_err());
        assert!(agreed("MPI_UNSIGNED", "MPI_INT").is_err());
        assert!(agreed("MPI_FLOAT_INT", "MPI_2INT").is_err());
    }

    /// Types of Fortran's without a name are others in each process: what goes over the wire has a name.
    #[test]
    fn a_type_without_a_name_has_a_component_with_one() {
        for (digits, name) in [(6, "MPI_FLOAT"), (15, "MPI_DOUBLE")] {
            let real = Datatype::f90_real(digits, 1).unwrap();
            assert_eq!(name_of(&real).as_deref(), Some(name));
            let some = Datatype::contiguous(4, &real).unwrap();
            Datatype::accumulated(&some, named(name)).unwrap();
        }
        let long = Datatype::f90_complex(18, 4000).unwrap();
        assert_eq!(name_of(&long).as_deref(), Some("MPI_C_LONG_DOUBLE_COMPLEX"));
    }
}
