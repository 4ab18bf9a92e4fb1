import { type Results, divide, significant } from './report.js';
import { TARGETS } from './targets.js';
import { SCENARIOS, type Scenario, type ScenarioName } from './scenarios.js';

const WIDTH = 880;
const PANEL_WIDTH = WIDTH / 2;
const NAME_WIDTH = 118;
const BAR_WIDTH = 190;
const BAR_HEIGHT = 14;
const LINE = 21;
const TOP = 34;

// Mid-tones, with a contrast of 4:1 or more on white and on near-black alike: a page's theme does
// not reach into an image, and the reader's system may be set to another one.
const TEXT = '#6e7781';
const COLOURS = { service: '#2f81f7', limit: '#8c959f', peer: '#bf8700' };

/** An SVG bar chart of requests a second: one panel a work, each with a scale of its own. */
export function renderChart({ works }: Results): string {
  const panels = (Object.entries(SCENARIOS) as [ScenarioName, Scenario][])
    .filter(([name, work]) => work.inChart && works.has(name))
    .map(([name, work]) => ({ work, measurements: [...(works.get(name) ?? [])] }));
  const parts: string[] = [];
  let y = TOP;
  for (let row = 0; row < panels.length; row += 2) {
    const pair = panels.slice(row, row + 2);
    pair.forEach(({ work, measurements }, column) => {
      const x = column * PANEL_WIDTH;
      const most = Math.max(...measurements.map(([, { requestsPerSecond }]) => requestsPerSecond));
      const service = measurements.find(([server]) => server === 'service')?.[1].requestsPerSecond;
      parts.push(text(x, y + 12, work.title, 'class="title"'));
      measurements.forEach(([server, { requestsPerSecond }], index) => {
        const top = y + 24 + index * LINE;
        const width = Math.max(1, (requestsPerSecond / most) * BAR_WIDTH).toFixed(1);
        const colour =
          server === 'service' ? COLOURS.service : server === 'raw' ? COLOURS.limit : COLOURS.peer;
        const ratio = server === 'service' ? undefined : divide(requestsPerSecond, service);
        const figure = significant(requestsPerSecond) + (ratio ? ` (${significant(ratio)}x)` : '');
        parts.push(
          text(x + NAME_WIDTH - 8, top + 11, TARGETS[server].title, 'text-anchor="end"'),
          `<rect x="${x + NAME_WIDTH}" y="${top}" width="${width}" height="${BAR_HEIGHT}" rx="2" fill="${colour}"/>`,
          text(x + NAME_WIDTH + Number(width) + 6, top + 11, figure),
        );
      });
    });
    y += 24 + Math.max(...pair.map(({ measurements }) => measurements.length)) * LINE + 22;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" width="${WIDTH}" height="${y}" role="img" aria-label="Requests a second of this service and its peers">
<style>text { font: 12px system-ui, sans-serif; fill: ${TEXT} } .title { font-weight: 600; font-size: 13px }</style>
${text(0, 14, 'Requests a second (more is better); in parentheses the ratio to this service. Each panel has its own scale.')}
${parts.join('\n')}
</svg>
`;
}

function text(x: number, y: number, content: string, attributes = ''): string {
  const escaped = content.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `<text x="${x.toFixed(1)}" y="${y}"${attributes && ` ${attributes}`}>${escaped}</text>`;
}
