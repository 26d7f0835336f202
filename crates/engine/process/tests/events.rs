//! What the engine tells besides its answers reaches a subscriber, once.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{
    fmt::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use forebay_process::{Event, EventKind, take_warnings};
use tracing::{
    Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Events belong to the process: what one test waits for, another must not take.
static ALONE: Mutex<()> = Mutex::new(());

/// What a subscriber heard: level, fields and text of each event, and the warnings that waited.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<(Level, String)>>>, Arc<Mutex<Vec<Event>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Heard {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "forebay"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        // A subscriber may ask for warnings: no lock of the engine's is held.
        self.1.lock().unwrap().extend(take_warnings());
        self.0.lock().unwrap().push((*event.metadata().level(), fields.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[test]
fn a_subscriber_hears_of_each_event_once_with_its_kind_and_subject() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let heard = Heard::default();
    tracing::subscriber::with_default(heard.clone(), || {
        for count in [1, 2] {
            Event::new(EventKind::Tier, format!("a tier is left out: {count}")).about("memory").emit();
        }
        Event::new(EventKind::Mapping, "files are read, not mapped").emit();
    });
    let taken = heard.1.lock().unwrap().clone();
    let heard = heard.0.lock().unwrap().clone();
    let found = |level: Level, parts: &[&str]| {
        heard.iter().filter(|(is, text)| *is == level && parts.iter().all(|part| text.contains(part))).count()
    };
    assert_eq!(
        found(Level::WARN, &["kind=\"tier\"", "subject=\"memory\"", "a tier is left out: 1"]),
        1,
        "{heard:?}"
    );
    assert_eq!(found(Level::WARN, &[]), 1, "{heard:?}");
    assert_eq!(found(Level::INFO, &["kind=\"mapping\"", "files are read, not mapped"]), 1, "{heard:?}");
    assert_eq!(taken.iter().filter(|event| event.subject == "memory").count(), 1);
}

#[test]
fn threads_that_tell_the_same_at_once_are_heard_once() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || {
                Event::new(EventKind::Sample, format!("thread {number} leaves it out"))
                    .about("one sample")
                    .emit();
            });
        }
    });
    assert_eq!(take_warnings().iter().filter(|event| event.subject == "one sample").count(), 1);
}

#[test]
fn a_warning_is_given_once_for_a_subject_and_a_note_is_not_shown() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let ours = || {
        let taken = take_warnings().into_iter().filter(|event| event.text.starts_with("this test"));
        taken.map(|event| event.text).collect::<Vec<_>>()
    };
    Event::new(EventKind::List, "this test leaves out 1").about("a folder").emit();
    Event::new(EventKind::List, "this test leaves out 2").about("a folder").emit();
    Event::new(EventKind::Tier, "this test leaves out 3").about("a folder").emit();
    Event::new(EventKind::Mapping, "this test notes").emit();
    assert_eq!(ours(), ["this test leaves out 1", "this test leaves out 3"]);
    Event::new(EventKind::List, "this test leaves out 4").about("a folder").emit();
    assert_eq!(ours(), [""; 0]);
}

#[test]
fn thousands_of_notes_hide_no_warning() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for sample in 0..5000 {
        Event::new(EventKind::Skipped, format!("sample {sample} is left out")).emit();
    }
    Event::new(EventKind::Spill, "nothing is spilled").about("after many notes").emit();
    assert_eq!(take_warnings().iter().filter(|event| event.subject == "after many notes").count(), 1);
}
