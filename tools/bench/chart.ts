import { type Results, divide, toSignificantDigits } from './report.js';
import { TARGETS } from './targets.js';
import { SCENARIOS, type Scenario, type ScenarioName } from './scenarios.js';

const WIDTH = 880;
const PANEL_WIDTH = WIDTH / 2;
const NAME_WIDTH = 118;
const BAR_WIDTH = 190;
const BAR_HEIGHT = 14;
const LINE = 21;
const TOP = 34;

// Mid-tones with a contrast of at least 4:1 on both white and near-black, because an image does not
// know the theme of the page that shows it.
const TEXT = '#6e7781';
const COLOURS = { service: '#2f81f7', upperBound: '#8c959f', baseline: '#bf8700' };

/** Renders an SVG bar chart of requests per second, with one panel and one scale per scenario. */
export function renderChart({ scenarios }: Results): string {
  const panels = (Object.entries(SCENARIOS) as [ScenarioName, Scenario][])
    .filter(([name, scenario]) => scenario.inChart && scenarios.has(name))
    .map(([name, scenario]) => ({
      scenario,
      measurements: [...(scenarios.get(name) ?? [])],
    }));
  const parts: string[] = [];
  let y = TOP;
  for (let row = 0; row < panels.length; row += 2) {
    const pair = panels.slice(row, row + 2);
    pair.forEach(({ scenario, measurements }, column) => {
      const x = column * PANEL_WIDTH;
      const max = Math.max(...measurements.map(([, { requestsPerSecond }]) => requestsPerSecond));
      const service = measurements.find(([target]) => target === 'service')?.[1].requestsPerSecond;
      parts.push(text(x, y + 12, scenario.title, 'class="title"'));
      measurements.forEach(([target, { requestsPerSecond }], index) => {
        const top = y + 24 + index * LINE;
        const width = Math.max(1, (requestsPerSecond / max) * BAR_WIDTH).toFixed(1);
        const colour =
          target === 'service'
            ? COLOURS.service
            : target === 'raw'
              ? COLOURS.upperBound
              : COLOURS.baseline;
        const ratio = target === 'service' ? undefined : divide(requestsPerSecond, service);
        const label =
          toSignificantDigits(requestsPerSecond) +
          (ratio ? ` (${toSignificantDigits(ratio)}x)` : '');
        parts.push(
          text(x + NAME_WIDTH - 8, top + 11, TARGETS[target].title, 'text-anchor="end"'),
          `<rect x="${x + NAME_WIDTH}" y="${top}" width="${width}" height="${BAR_HEIGHT}" rx="2" fill="${colour}"/>`,
          text(x + NAME_WIDTH + Number(width) + 6, top + 11, label),
        );
      });
    });
    y += 24 + Math.max(...pair.map(({ measurements }) => measurements.length)) * LINE + 22;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" width="${WIDTH}" height="${y}" role="img" aria-label="Requests per second of this service and the baselines">
<style>text { font: 12px system-ui, sans-serif; fill: ${TEXT} } .title { font-weight: 600; font-size: 13px }</style>
${text(0, 14, 'Requests per second (higher is better), with the ratio to this service in parentheses. Each panel has its own scale.')}
${parts.join('\n')}
</svg>
`;
}

function text(x: number, y: number, content: string, attributes = ''): string {
  const escaped = content.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `<text x="${x.toFixed(1)}" y="${y}"${attributes && ` ${attributes}`}>${escaped}</text>`;
}
