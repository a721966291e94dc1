//! What all trials share: the program, a model, and how a command of dwell is begun.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use dwell_gguf::{MakePlan, MakeSpec, Overwrite, make};

use crate::processes::MARK;

/// The program and the model of all trials.
pub(crate) struct Lab {
    dwell: PathBuf,
    dir: tempfile::TempDir,
}

impl Lab {
    /// Finds dwell beside this program and makes a model of random weights.
    pub(crate) fn new(dwell: Option<PathBuf>) -> anyhow::Result<Self> {
        let beside = std::env::current_exe().context("finding this program")?.with_file_name("dwell");
        let dwell = dwell.unwrap_or(beside);
        if !dwell.exists() {
            bail!("dwell is not built: {dwell:?}");
        }
        let dir = tempfile::Builder::new().prefix("dwell-soak-").tempdir().context("making a folder for the trials")?;
        let lab = Self { dwell: fs::canonicalize(dwell)?, dir };
        let spec = MakeSpec { layers: 1, embedding: 64, feed_forward: 64, vocabulary: 300, ..MakeSpec::default() };
        make(&MakePlan::new(spec)?, &lab.model(), Overwrite::Allow, &mut |_| {})?;
        Ok(lab)
    }

    /// Folder of everything.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn model(&self) -> PathBuf {
        self.path().join("tiny.gguf")
    }

    /// A command of dwell that works in a folder and keeps its temporary files there.
    pub(crate) fn dwell(&self, place: &Place) -> Command {
        let mut command = Command::new(&self.dwell);
        place.prepare(&mut command);
        command
    }

    /// The same behind a program that sets limits and then becomes it.
    pub(crate) fn dwell_behind(&self, words: &[String], place: &Place) -> Command {
        self.program_behind(words, &self.dwell, place)
    }

    /// Another program, in the same way.
    pub(crate) fn program_behind(&self, words: &[String], program: &Path, place: &Place) -> Command {
        let mut all = words.iter().map(OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(all.next().unwrap_or_default());
        command.args(all);
        place.prepare(&mut command);
        command
    }
}

/// The folder of one trial.
pub(crate) struct Place {
    dir: PathBuf,
    /// What marks its processes.
    pub(crate) mark: String,
}

impl Place {
    /// An empty folder, with another for temporary files inside.
    pub(crate) fn make(dir: PathBuf, mark: String) -> anyhow::Result<Self> {
        fs::create_dir_all(&dir).with_context(|| format!("making {dir:?}"))?;
        Ok(Self { dir, mark })
    }

    /// The number of the trial, which ends its mark.
    pub(crate) fn number(&self) -> &str {
        self.mark.rsplit('-').next().unwrap_or_default()
    }

    /// Where commands write.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// Where commands put temporary files. It is beside what is written, on the same disk.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    /// The file that a command's messages go to. It is not on the disk of the trial, which may be full.
    fn messages(&self) -> PathBuf {
        self.dir.with_extension("said")
    }

    fn prepare(&self, command: &mut Command) {
        let _ = fs::create_dir_all(self.temporary());
        command.current_dir(&self.dir).env(MARK, &self.mark).env("TMPDIR", self.temporary()).stdin(Stdio::null());
    }

    /// Lets a command's output and messages go to a file.
    pub(crate) fn with_messages(&self, mut command: Command) -> anyhow::Result<Command> {
        let file = File::options().create(true).append(true).open(self.messages()).context("opening the messages")?;
        command.stdout(file.try_clone()?).stderr(file);
        Ok(command)
    }

    /// What commands have said so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.messages()).unwrap_or_default()).into_owned()
    }

    /// Removes everything.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.dir);
        let _ = fs::remove_file(self.messages());
    }
}

/// Runs a command to its end and takes the time.
pub(crate) fn timed(mut command: Command) -> anyhow::Result<(Output, Duration)> {
    let begin = Instant::now();
    let output = command.output().context("starting dwell")?;
    Ok((output, begin.elapsed()))
}

/// The same of one that must succeed.
pub(crate) fn succeeds(command: Command) -> anyhow::Result<Duration> {
    let (output, took) = timed(command)?;
    if !output.status.success() {
        bail!("without any disturbance, dwell failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(took)
}
