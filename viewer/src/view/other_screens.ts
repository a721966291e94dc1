/** The pages of comparisons and experiments. */

import { element, type Child } from "../dom.ts";
import type { Surroundings } from "../page_parts.ts";
import type { PageAnswer } from "./client.ts";
import { backLink } from "./messages.ts";
import { PageScreen, scrollToSection } from "./page_screen.ts";
import { formatRoute, LIST, runLink, type ComparisonRoute, type ExperimentRoute, type Route } from "./routes.ts";
import type { Stage } from "./screen.ts";

/** Neither has a run of its own to draw. */
const NO_RUN: Pick<Surroundings, "sectionsOfRun"> = { sectionsOfRun: () => [] };

abstract class FixedScreen<Own extends ComparisonRoute | ExperimentRoute> extends PageScreen {
  constructor(
    stage: Stage,
    readonly route: Own,
    names: [string, string][],
    what: string,
  ) {
    super(stage, names, what, route.section);
  }

  follow(route: Route): boolean {
    const isSame = "section" in route && this.linkTo("") === formatRoute({ ...route, section: "" });
    if (isSame) {
      scrollToSection(document.getElementById(route.section));
    }
    return isSame;
  }

  protected linkTo(section: string): string {
    return formatRoute({ ...this.route, section });
  }

  protected around(): Pick<Surroundings, "sectionsOfRun"> {
    return NO_RUN;
  }
}

export class ComparisonScreen extends FixedScreen<ComparisonRoute> {
  constructor(stage: Stage, route: ComparisonRoute) {
    const names = route.paths.map((path): [string, string] => ["run", path]);
    super(stage, route, names, `the comparison of ${route.paths.length} runs`);
  }

  protected override above(): Child[] {
    const links = this.route.paths.map((path) => element("a", { href: runLink(path) }, path));
    return [...super.above(), element("nav", { class: "related", "aria-label": "Runs that are compared" }, "Runs: ", ...links)];
  }

  /** Runs are compared as they are: a table that changes while it is read compares nothing. */
  protected override nextIn(_answer: PageAnswer): null {
    return null;
  }
}

export class ExperimentScreen extends FixedScreen<ExperimentRoute> {
  constructor(stage: Stage, route: ExperimentRoute) {
    super(stage, route, [["experiment", route.id]], `experiment ${route.id}`);
  }

  protected override above(): Child[] {
    const runs = formatRoute({ ...LIST, find: this.route.id });
    return [
      backLink(),
      element("nav", { class: "related", "aria-label": "Runs" }, element("a", { href: runs }, "Runs of this experiment")),
    ];
  }
}
