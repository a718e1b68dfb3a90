//! Matching of messages to receives (MPI 5.0 section 3.5): the posted queue and the unexpected queue.
//!
//! The idea: a receive waits in the bin of its pattern (context, source, tag), where source and tag may be wildcards; a
//! message matches at most four patterns, so an arrival looks into at most four bins and takes the receive that was
//! posted first. An unexpected message lies in the bin of its exact envelope and, once its context has seen a wildcard,
//! also in its bins by source and by tag. So nothing is ever searched: the cost does not grow with either queue.
//!
//! The newest receive and the newest message are in no bin until the next one comes. Most are alone and are gone before
//! that, and one comparison finds them.
//!
//! All links are indices into slabs; in the steady state nothing is allocated.

use rustc_hash::FxHashMap;

use crate::base::slab::Slab;
use crate::identity::Context;

/// The envelope of a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Envelope {
    /// The communicator's context id.
    pub context: Context,
    /// The sender's rank in the communicator.
    pub source: u32,
    /// Never negative.
    pub tag: i32,
}

/// What a receive or probe takes; `None` is a wildcard.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pattern {
    /// The communicator's context id.
    pub context: Context,
    /// The sender's rank, or any.
    pub source: Option<u32>,
    /// The tag, or any.
    pub tag: Option<i32>,
}

impl Pattern {
    /// Whether it matches a message of this envelope.
    #[inline]
    pub fn takes(&self, envelope: &Envelope) -> bool {
        self.context == envelope.context
            && self.source.is_none_or(|source| source == envelope.source)
            && self.tag.is_none_or(|tag| tag == envelope.tag)
    }

    fn key(&self) -> Key {
        Key {
            context: self.context,
            source: self.source.unwrap_or(ANY_SOURCE),
            tag: self.tag.unwrap_or(ANY_TAG),
        }
    }

    fn class(&self) -> usize {
        usize::from(self.source.is_none()) | usize::from(self.tag.is_none()) << 1
    }
}

const ANY_SOURCE: u32 = u32::MAX;
const ANY_TAG: i32 = i32::MIN;

/// The four bins of an envelope, by class: exact, any source, any tag, both.
fn key_of_class(envelope: &Envelope, class: usize) -> Key {
    Key {
        context: envelope.context,
        source: if class & 1 == 0 {
            envelope.source
        } else {
            ANY_SOURCE
        },
        tag: if class & 2 == 0 { envelope.tag } else { ANY_TAG },
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    context: Context,
    source: u32,
    tag: i32,
}

const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Bin {
    head: u32,
    tail: u32,
}

/// Receives of one pattern, in the order in which they were posted.
#[derive(Clone, Copy, Debug)]
struct PostedBin {
    key: Key,
    head: u32,
    tail: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    prev: u32,
}

const UNLINKED: Link = Link { next: NIL, prev: NIL };

/// Receives that wait for a message, each with a value of type `R`.
pub struct Posted<R> {
    nodes: Slab<PostedNode<R>>,
    /// The one posted last, if it still waits: it is in no bin.
    newest: u32,
    bins: Slab<PostedBin>,
    /// Where the bin of a pattern is.
    places: FxHashMap<Key, u32>,
    /// By class: the bin that got a receive last, which is looked at before `places`.
    recent: [u32; 4],
    /// How many receives wait in the bins of each class of pattern; a class without any costs no lookup.
    in_class: [usize; 4],
    order: u64,
}

struct PostedNode<R> {
    value: R,
    pattern: Pattern,
    order: u64,
    bin: u32,
    link: Link,
}

/// Names a posted receive, for [`Posted::remove`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PostedId(u32);

impl<R: Copy> Default for Posted<R> {
    fn default() -> Self {
        Posted {
            nodes: Slab::default(),
            newest: NIL,
            bins: Slab::default(),
            places: FxHashMap::default(),
            recent: [NIL; 4],
            in_class: [0; 4],
            order: 0,
        }
    }
}

impl<R: Copy> Posted<R> {
    /// The name that the next receive gets.
    #[inline]
    pub fn next_id(&self) -> PostedId {
        PostedId(self.nodes.next_index())
    }

    /// Puts a receive at the end of the queue.
    #[inline]
    pub fn push(&mut self, pattern: Pattern, value: R) -> PostedId {
        if self.newest != NIL {
            self.link(self.newest);
        }
        let order = self.order;
        self.order += 1;
        self.newest = self.nodes.insert_with(|| PostedNode {
            value,
            pattern,
            order,
            bin: NIL,
            link: UNLINKED,
        });
        PostedId(self.newest)
    }

    fn link(&mut self, node: u32) {
        let pattern = self.nodes[node].pattern;
        let (key, class) = (pattern.key(), pattern.class());
        self.in_class[class] += 1;
        let place = self.bin(class, &key).unwrap_or_else(|| self.new_bin(key));
        self.recent[class] = place;
        let bin = &mut self.bins[place];
        let tail = bin.tail;
        bin.tail = node;
        if tail == NIL {
            bin.head = node;
        } else {
            self.nodes[tail].link.next = node;
        }
        let node = &mut self.nodes[node];
        node.link.prev = tail;
        node.bin = place;
    }

    /// Where the bin of a pattern is, if there is one.
    #[inline(always)]
    fn bin(&self, class: usize, key: &Key) -> Option<u32> {
        let recent = self.recent[class];
        match self.bins.get(recent) {
            Some(bin) if bin.key == *key => Some(recent),
            _ => self.places.get(key).copied(),
        }
    }

    fn new_bin(&mut self, key: Key) -> u32 {
        let place = self.bins.insert(PostedBin {
            key,
            head: NIL,
            tail: NIL,
        });
        self.places.insert(key, place);
        place
    }

    /// Takes out the receive that a message of this envelope matches: the one posted first.
    #[cfg(any(test, feature = "sim"))]
    pub fn take(&mut self, envelope: &Envelope) -> Option<R> {
        self.find(envelope).map(|(place, _)| self.remove(place))
    }

    /// The receive that a message of this envelope matches, which stays in the queue.
    #[inline(always)]
    pub fn find(&self, envelope: &Envelope) -> Option<(PostedId, R)> {
        let [exact, wild @ ..] = &self.in_class;
        let found = match wild {
            // Most receives name source and tag.
            [0, 0, 0] => match exact {
                0 => None,
                _ => self.head(0, envelope),
            },
            _ => self.find_in_bins(envelope),
        };
        if let Some(node) = found {
            return Some((PostedId(node), self.nodes[node].value));
        }
        let node = self.nodes.get(self.newest)?;
        node.pattern
            .takes(envelope)
            .then_some((PostedId(self.newest), node.value))
    }

    /// The first receive in the bin of a class that matches such messages.
    #[inline(always)]
    fn head(&self, class: usize, envelope: &Envelope) -> Option<u32> {
        let place = self.bin(class, &key_of_class(envelope, class))?;
        Some(self.bins[place].head)
    }

    /// The pattern of a posted receive.
    pub fn pattern(&self, PostedId(id): PostedId) -> &Pattern {
        &self.nodes[id].pattern
    }

    #[inline(never)]
    fn find_in_bins(&self, envelope: &Envelope) -> Option<u32> {
        let mut first: Option<(u64, u32)> = None;
        for class in 0..4 {
            if self.in_class[class] == 0 {
                continue;
            }
            if let Some(head) = self.head(class, envelope) {
                let order = self.nodes[head].order;
                if first.is_none_or(|(least, _)| order < least) {
                    first = Some((order, head));
                }
            }
        }
        first.map(|(_, head)| head)
    }

    /// Takes out one receive.
    #[inline]
    pub fn remove(&mut self, PostedId(id): PostedId) -> R {
        if id == self.newest {
            self.newest = NIL;
        } else {
            self.unlink(id);
        }
        let value = self.nodes[id].value;
        self.nodes.discard(id);
        value
    }

    fn unlink(&mut self, id: u32) {
        let node = &self.nodes[id];
        let (pattern, place, Link { next, prev }) = (node.pattern, node.bin, node.link);
        self.in_class[pattern.class()] -= 1;
        if next != NIL {
            self.nodes[next].link.prev = prev;
        }
        if prev != NIL {
            self.nodes[prev].link.next = next;
        }
        let bin = &mut self.bins[place];
        if prev == NIL {
            bin.head = next;
        }
        if next == NIL {
            bin.tail = prev;
        }
        if bin.head == NIL {
            self.places.remove(&bin.key);
            self.bins.discard(place);
        }
    }

    /// How many receives wait.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every waiting receive, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Pattern, R)> {
        self.nodes.iter().map(|(_, node)| (&node.pattern, node.value))
    }
}

/// Messages that arrived before their receive, each with a value of type `M`.
pub struct Unexpected<M> {
    nodes: Slab<MessageNode<M>>,
    /// The one that came last, if it still waits: it is in no bin.
    newest: u32,
    bins: FxHashMap<Key, Bin>,
    /// Contexts with messages in bins.
    contexts: FxHashMap<Context, ContextState>,
}

#[derive(Clone, Copy)]
struct ContextState {
    messages: usize,
    /// Whether messages of this context are also kept by source and by tag, as a wildcard was asked for.
    by_wildcard: bool,
}

struct MessageNode<M> {
    value: M,
    envelope: Envelope,
    /// By class: exact, any source (by tag), any tag (by source), both (all of the context, in order of arrival).
    links: [Link; 4],
}

/// Names an unexpected message, until it is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageId(u32);

const EXACT: usize = 0;
const ALL: usize = 3;

impl<M> Default for Unexpected<M> {
    fn default() -> Self {
        Unexpected {
            nodes: Slab::default(),
            newest: NIL,
            bins: FxHashMap::default(),
            contexts: FxHashMap::default(),
        }
    }
}

impl<M> Unexpected<M> {
    /// Adds a message at the end.
    #[inline]
    pub fn push(&mut self, envelope: Envelope, value: M) -> MessageId {
        if self.newest != NIL {
            self.link_all(self.newest);
        }
        self.newest = self.nodes.insert(MessageNode {
            value,
            envelope,
            links: [UNLINKED; 4],
        });
        MessageId(self.newest)
    }

    fn link_all(&mut self, node: u32) {
        let context = self.nodes[node].envelope.context;
        let state = self.contexts.entry(context).or_insert(ContextState {
            messages: 0,
            by_wildcard: false,
        });
        state.messages += 1;
        let by_wildcard = state.by_wildcard;
        self.link(node, EXACT);
        self.link(node, ALL);
        if by_wildcard {
            self.link(node, 1);
            self.link(node, 2);
        }
    }

    fn link(&mut self, node: u32, class: usize) {
        let key = key_of_class(&self.nodes[node].envelope, class);
        let bin = self.bins.entry(key).or_insert(Bin { head: NIL, tail: NIL });
        let tail = bin.tail;
        bin.tail = node;
        if tail == NIL {
            bin.head = node;
        } else {
            self.nodes[tail].links[class].next = node;
        }
        self.nodes[node].links[class].prev = tail;
    }

    fn unlink(&mut self, node: u32, class: usize) {
        let Link { next, prev } = self.nodes[node].links[class];
        if next != NIL {
            self.nodes[next].links[class].prev = prev;
        }
        if prev != NIL {
            self.nodes[prev].links[class].next = next;
        }
        if next == NIL || prev == NIL {
            let key = key_of_class(&self.nodes[node].envelope, class);
            if next == NIL && prev == NIL {
                self.bins.remove(&key);
            } else if let Some(bin) = self.bins.get_mut(&key) {
                if prev == NIL {
                    bin.head = next;
                } else {
                    bin.tail = prev;
                }
            }
        }
    }

    /// The message that arrived first of those that match the pattern.
    #[inline]
    pub fn find(&mut self, pattern: &Pattern) -> Option<MessageId> {
        if self.nodes.is_empty() {
            return None;
        }
        let binned = self.nodes.len() - usize::from(self.newest != NIL);
        if binned != 0
            && let Some(found) = self.find_in_bins(pattern)
        {
            return Some(found);
        }
        let node = self.nodes.get(self.newest)?;
        pattern.takes(&node.envelope).then_some(MessageId(self.newest))
    }

    fn find_in_bins(&mut self, pattern: &Pattern) -> Option<MessageId> {
        let class = pattern.class();
        if class == 1 || class == 2 {
            self.keep_by_wildcard(pattern.context);
        }
        self.bins.get(&pattern.key()).map(|bin| MessageId(bin.head))
    }

    fn keep_by_wildcard(&mut self, context: Context) {
        match self.contexts.get_mut(&context) {
            Some(state) if !state.by_wildcard => state.by_wildcard = true,
            _ => return,
        }
        let all = Key {
            context,
            source: ANY_SOURCE,
            tag: ANY_TAG,
        };
        let mut node = self.bins.get(&all).map_or(NIL, |bin| bin.head);
        while node != NIL {
            self.link(node, 1);
            self.link(node, 2);
            node = self.nodes[node].links[ALL].next;
        }
    }

    /// The first message of exactly this envelope for which `is_it` holds: for a sender that takes it back.
    pub fn find_exact(&self, envelope: &Envelope, is_it: impl Fn(&M) -> bool) -> Option<MessageId> {
        let bin = self.bins.get(&key_of_class(envelope, EXACT));
        let mut node = bin.map_or(NIL, |bin| bin.head);
        while node != NIL {
            if is_it(&self.nodes[node].value) {
                return Some(MessageId(node));
            }
            node = self.nodes[node].links[EXACT].next;
        }
        let newest = self.nodes.get(self.newest)?;
        (newest.envelope == *envelope && is_it(&newest.value)).then_some(MessageId(self.newest))
    }

    /// A message, which stays in the queue.
    pub fn peek(&self, MessageId(node): MessageId) -> (&Envelope, &M) {
        let node = &self.nodes[node];
        (&node.envelope, &node.value)
    }

    /// Takes a message out.
    #[inline]
    pub fn take(&mut self, MessageId(node): MessageId) -> (Envelope, M) {
        if node == self.newest {
            self.newest = NIL;
        } else {
            self.unlink_all(node);
        }
        let node = self.nodes.remove(node);
        (node.envelope, node.value)
    }

    fn unlink_all(&mut self, node: u32) {
        let context = self.nodes[node].envelope.context;
        self.unlink(node, EXACT);
        self.unlink(node, ALL);
        if let Some(state) = self.contexts.get_mut(&context) {
            let by_wildcard = state.by_wildcard;
            state.messages -= 1;
            if state.messages == 0 {
                self.contexts.remove(&context);
            }
            if by_wildcard {
                self.unlink(node, 1);
                self.unlink(node, 2);
            }
        }
    }

    /// How many messages wait.
    #[cfg(feature = "sim")]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether none waits.
    #[cfg(feature = "sim")]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every message, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Envelope, &M)> {
        self.nodes.iter().map(|(_, node)| (&node.envelope, &node.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Arrive(Envelope),
        Post(Pattern),
        RemovePosted(usize),
        Find(Pattern),
    }

    fn envelope() -> impl Strategy<Value = Envelope> {
        (0..2u64, 0..3u32, 0..3i32).prop_map(|(context, source, tag)| Envelope {
            context: Context::of_bits(context),
            source,
            tag,
        })
    }

    fn pattern() -> impl Strategy<Value = Pattern> {
        (0..2u64, prop::option::of(0..3u32), prop::option::of(0..3i32)).prop_map(|(context, source, tag)| {
            Pattern {
                context: Context::of_bits(context),
                source,
                tag,
            }
        })
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => envelope().prop_map(Step::Arrive),
            4 => pattern().prop_map(Step::Post),
            1 => any::<usize>().prop_map(Step::RemovePosted),
            1 => pattern().prop_map(Step::Find),
        ]
    }

    proptest! {
        /// Both queues against two plain vectors that are searched from the front.
        #[test]
        fn as_searching_in_order(steps in prop::collection::vec(step(), 0..200)) {
            let mut posted: Posted<usize> = Posted::default();
            let mut unexpected: Unexpected<usize> = Unexpected::default();
            let mut posted_model: Vec<(Pattern, usize, PostedId)> = Vec::new();
            let mut unexpected_model: Vec<(Envelope, usize)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Arrive(envelope) => {
                        let at = posted_model.iter().position(|(pattern, ..)| pattern.takes(&envelope));
                        let expected = at.map(|at| posted_model.remove(at).1);
                        prop_assert_eq!(posted.take(&envelope), expected);
                        if expected.is_none() {
                            unexpected.push(envelope, number);
                            unexpected_model.push((envelope, number));
                        }
                    }
                    Step::Post(pattern) => {
                        let at = unexpected_model.iter().position(|(envelope, _)| pattern.takes(envelope));
                        let found = unexpected.find(&pattern).map(|id| unexpected.take(id));
                        prop_assert_eq!(found, at.map(|at| unexpected_model.remove(at)));
                        if at.is_none() {
                            let id = posted.push(pattern, number);
                            posted_model.push((pattern, number, id));
                        }
                    }
                    Step::RemovePosted(at) if !posted_model.is_empty() => {
                        let (_, value, id) = posted_model.remove(at % posted_model.len());
                        prop_assert_eq!(posted.remove(id), value);
                    }
                    Step::RemovePosted(_) => {}
                    Step::Find(pattern) => {
                        let expected = unexpected_model.iter().find(|(envelope, _)| pattern.takes(envelope));
                        let found = unexpected.find(&pattern).map(|id| *unexpected.peek(id).1);
                        prop_assert_eq!(found, expected.map(|(_, value)| *value));
                        if let Some(&(envelope, _)) = expected {
                            let like = unexpected_model.iter().filter(|(other, _)| *other == envelope);
                            let last = like.map(|(_, value)| *value).max();
                            let id = unexpected.find_exact(&envelope, |value| Some(*value) == last);
                            prop_assert_eq!(id.map(|id| *unexpected.peek(id).1), last);
                        }
                    }
                }
                prop_assert_eq!(posted.len(), posted_model.len());
                prop_assert_eq!(unexpected.len(), unexpected_model.len());
            }
            while let Some((envelope, _)) = unexpected_model.first().copied() {
                let pattern = Pattern { context: envelope.context, source: Some(envelope.source), tag: None };
                let id = unexpected.find(&pattern).expect("the model has one");
                let at = unexpected_model.iter().position(|(envelope, _)| pattern.takes(envelope)).unwrap();
                prop_assert_eq!(unexpected.take(id), unexpected_model.remove(at));
            }
            prop_assert!(unexpected.bins.is_empty() && unexpected.contexts.is_empty());
            for (.., id) in posted_model {
                posted.remove(id);
            }
            prop_assert!(posted.bins.is_empty() && posted.places.is_empty());
        }
    }
}
