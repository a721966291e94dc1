//! Temperature of the processor, from hwmon and thermal zones.

use dwell_events::host::{Sensor, Temperature};

use super::range::Range;
use crate::kept_file::KeptFile;
use crate::root::Root;

const HWMON: &str = "sys/class/hwmon";
const ZONES: &str = "sys/class/thermal";

/// A file that holds thousandths of a degree.
struct Spot {
    name: String,
    path: String,
}

pub(crate) struct TemperatureWatch {
    state: Result<Watching, String>,
}

struct Watching {
    source: String,
    files: Vec<KeptFile>,
    range: Range,
}

impl TemperatureWatch {
    pub(crate) fn open(root: &Root) -> Self {
        let spots = spots(root);
        let source = spots.iter().map(|spot| spot.name.as_str()).collect::<Vec<_>>().join(", ");
        let state = match spots.is_empty() {
            true => Err(format!("neither /{HWMON} nor /{ZONES} has a sensor of the processor")),
            false => spots
                .iter()
                .map(|spot| KeptFile::open(root.path(&spot.path)))
                .collect::<Result<_, _>>()
                .map(|files| Watching { source, files, range: Range::default() }),
        };
        Self { state }
    }

    pub(crate) fn look(&mut self) {
        let Ok(watching) = &mut self.state else { return };
        match watching.hottest_c() {
            Ok(hottest_c) => watching.range.add(hottest_c),
            Err(reason) => self.state = Err(reason),
        }
    }

    pub(crate) fn end(self) -> Sensor<Temperature> {
        let temperature = self.state.and_then(|watching| {
            let range = watching.range;
            let mean_c = range.mean().ok_or("no sample was taken")?;
            let (start_c, peak_c, end_c) = (range.first, range.max, range.last);
            Ok(Temperature { source: watching.source, start_c, mean_c, peak_c, end_c })
        });
        temperature.into()
    }
}

impl Watching {
    fn hottest_c(&self) -> Result<f64, String> {
        let mut hottest = i64::MIN;
        for file in &self.files {
            hottest = hottest.max(file.number()?);
        }
        Ok(hottest as f64 / 1000.0)
    }
}

/// The best sensors there are: those of whole packages, else those of cores, else what the board calls the processor.
fn spots(root: &Root) -> Vec<Spot> {
    let inputs = hwmon_inputs(root);
    let labelled = |is_wanted: fn(&str, &str) -> bool| -> Vec<Spot> {
        let wanted = inputs.iter().filter(|input| is_wanted(&input.driver, &input.label));
        wanted.map(HwmonInput::spot).collect()
    };
    let candidates = [
        labelled(|driver, label| driver == "coretemp" && label.starts_with("Package id")),
        // The real temperature where the chip tells it; the other is the one that fans are steered by.
        labelled(|driver, label| is_amd(driver) && label == "Tdie"),
        labelled(|driver, label| is_amd(driver) && label == "Tctl"),
        zones(root, |kind| kind == "x86_pkg_temp"),
        labelled(|driver, _| driver == "coretemp" || is_amd(driver)),
        zones(root, |kind| kind.contains("cpu") || kind.contains("CPU")),
        labelled(|driver, _| driver == "cpu_thermal"),
    ];
    candidates.into_iter().find(|spots| !spots.is_empty()).unwrap_or_default()
}

fn is_amd(driver: &str) -> bool {
    matches!(driver, "k10temp" | "zenpower")
}

struct HwmonInput {
    driver: String,
    label: String,
    path: String,
}

impl HwmonInput {
    fn spot(&self) -> Spot {
        Spot { name: format!("{} {}", self.driver, self.label).trim_end().to_owned(), path: self.path.clone() }
    }
}

fn hwmon_inputs(root: &Root) -> Vec<HwmonInput> {
    let mut inputs = Vec::new();
    for device in root.numbered(HWMON, "hwmon") {
        let folder = format!("{HWMON}/{device}");
        let Some(driver) = root.word(&format!("{folder}/name")) else { continue };
        for file in root.names(&folder) {
            let Some(stem) = file.strip_suffix("_input").filter(|stem| stem.starts_with("temp")) else { continue };
            let label = root.word(&format!("{folder}/{stem}_label")).unwrap_or_default();
            inputs.push(HwmonInput { driver: driver.clone(), label, path: format!("{folder}/{file}") });
        }
    }
    inputs
}

fn zones(root: &Root, is_wanted: fn(&str) -> bool) -> Vec<Spot> {
    let spot = |zone: String| {
        let kind = root.word(&format!("{ZONES}/{zone}/type")).filter(|kind| is_wanted(kind))?;
        Some(Spot { name: format!("thermal zone {kind}"), path: format!("{ZONES}/{zone}/temp") })
    };
    root.numbered(ZONES, "thermal_zone").into_iter().filter_map(spot).collect()
}
