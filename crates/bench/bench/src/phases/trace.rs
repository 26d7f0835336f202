//! What a rank does, as events of its trace.

use forebay_workload::{Split, StepTimings};
use serde_json::json;

use crate::{
    phases::train::StepPlace,
    ranks::rank_run::RankRun,
    trace::{TraceEvent, arguments},
    workers::worker::BatchTimes,
};

impl RankRun<'_> {
    /// Adds the parts of a step, and the samples that were read for it.
    pub(crate) fn trace_step(
        &mut self,
        place: StepPlace,
        start_s: f64,
        step: &StepTimings,
        times: &BatchTimes,
    ) {
        let clock = self.clock;
        let Some(trace) = &mut self.trace else { return };
        let category = if place.split == Split::Train { "train" } else { "eval" };
        let known = json!({ "epoch": place.epoch, "step": place.step + 1 });
        let mut at_s = start_s;
        let parts = [("fetch", step.load_s), ("compute", step.compute_s), ("barrier", step.barrier_s)];
        for (name, took_s) in parts.into_iter().filter(|(_, took_s)| *took_s > 0.0) {
            let arguments = arguments(known.clone());
            trace.add(TraceEvent { name, category, worker: 0, start_s: at_s, took_s, arguments });
            at_s += took_s;
        }
        let mut at_s = clock.of_monotonic(times.began_ns);
        for sample in &times.samples {
            let took_s = (sample.metadata_ns + sample.read_ns) as f64 / 1e9;
            let arguments = arguments(json!({
                "epoch": place.epoch, "step": place.step + 1, "size": sample.bytes,
                "metadata_us": sample.metadata_ns / 1000, "read_us": sample.read_ns / 1000,
            }));
            trace.add(TraceEvent {
                name: "read_sample",
                category: "reader",
                worker: 1 + times.worker,
                start_s: at_s,
                took_s,
                arguments,
            });
            at_s += took_s;
        }
    }

    /// Adds what began at `start_s` and ends now.
    pub(crate) fn trace_span(&mut self, name: &str, category: &str, start_s: f64, known: serde_json::Value) {
        let took_s = self.clock.now_s() - start_s;
        if let Some(trace) = &mut self.trace {
            trace.add(TraceEvent { name, category, worker: 0, start_s, took_s, arguments: arguments(known) });
        }
    }
}
