import { type ReactNode, useEffect, useRef, useState } from 'react'
import UPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import type { ChartProps, Series } from './chart.tsx'
import { formatRange, formatTick } from './time-range.ts'
import { words } from './words.ts'

/*
 * Draws a chart with uPlot. `chart.tsx` loads it lazily. Colours come from the tokens of the current theme, and the drawing is made
 * again when the theme, the size or the data change.
 */

export function Drawing(props: ChartProps): ReactNode {
  const { summary, height = 160, onSelect } = props
  const area = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(0)
  const [pointed, setPointed] = useState<Pointed>()
  const theme = useTheme()
  const drawn = useRef<UPlot>(undefined)
  const latest = useRef(props)
  latest.current = props

  useEffect(() => {
    const element = area.current
    if (element === null) return undefined
    const observer = new ResizeObserver(() => setWidth(Math.floor(element.clientWidth)))
    observer.observe(element)
    return () => observer.disconnect()
  }, [])

  const shape = JSON.stringify([props.kind, props.stepMs, props.series.map(({ name, tone }) => [name, tone])])
  // biome-ignore lint/correctness/useExhaustiveDependencies: data and callbacks are read from `latest`; `shape` and `theme` mean a new drawing.
  useEffect(() => {
    const element = area.current
    if (element === null || width === 0) return undefined
    const plot = new UPlot(
      optionsOf(latest, element, { width, height, point: setPointed }),
      dataOf(latest.current),
      element,
    )
    drawn.current = plot
    return () => {
      drawn.current = undefined
      plot.destroy()
    }
  }, [width, height, shape, theme])

  useEffect(() => {
    drawn.current?.setData(dataOf({ ...latest.current, times: props.times, series: props.series }))
  }, [props.times, props.series])

  return (
    <div
      ref={area}
      className={onSelect === undefined ? `plot-area h-${height}` : `plot-area h-${height} brush`}
      role="img"
      aria-label={summary}
      title={onSelect === undefined || pointed !== undefined ? undefined : words.zoomHint}
    >
      {pointed !== undefined && <Tooltip {...props} {...pointed} />}
    </div>
  )
}

/** The interval under the pointer, and the side on which its tooltip has room. */
interface Pointed {
  readonly index: number
  readonly side: 'left' | 'right'
}

function Tooltip({ times, stepMs, series, format, index, side }: ChartProps & Pointed): ReactNode {
  const at = times[index]
  if (at === undefined) return null
  return (
    <div className={`tip at-${side}`} aria-hidden="true">
      <b className="num">{formatRange({ sinceMs: at, untilMs: at + stepMs })}</b>
      <ul className="legend">
        {series.map(({ name, tone, values }) => (
          <li key={name} className={`tone-${tone}`}>
            <span className="ink">{name}</span>
            <span className="num ink">{shown(values[index], format)}</span>
          </li>
        ))}
      </ul>
    </div>
  )
}

function shown(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? '–' : format(value)
}

/** Changes whenever the colours of the page do. */
function useTheme(): number {
  const [version, setVersion] = useState(0)
  useEffect(() => {
    const next = (): void => setVersion((before) => before + 1)
    const observer = new MutationObserver(next)
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] })
    const queries = ['(prefers-color-scheme: dark)', '(prefers-contrast: more)'].map((query) =>
      matchMedia(query),
    )
    for (const query of queries) query.addEventListener('change', next)
    return () => {
      observer.disconnect()
      for (const query of queries) query.removeEventListener('change', next)
    }
  }, [])
  return version
}

/** Bars are stacked: the top of each is the sum of its value and of the series below it. */
function dataOf({ kind, times, series }: ChartProps): UPlot.AlignedData {
  const sums = times.map(() => 0)
  const columns = series.map(({ values }) =>
    kind === 'lines'
      ? [...values]
      : times.map((_, index) => {
          sums[index] = (sums[index] ?? 0) + (values[index] ?? 0)
          return sums[index] ?? 0
        }),
  )
  return [[...times], ...columns]
}

interface DrawingSize {
  readonly width: number
  readonly height: number
  readonly point: (pointed: Pointed | undefined) => void
}

/** Bars begin and end at values of the vertical axis. */
const VALUES = 1
const FONT_PX = 11
const AXIS_WIDTH = 52
const AXIS_HEIGHT = 22
/** Space between ticks of the time axis, in pixels. */
const TICK_SPACE = 84

function optionsOf(
  latest: { readonly current: ChartProps },
  element: HTMLElement,
  { width, height, point }: DrawingSize,
): UPlot.Options {
  const { kind, stepMs, series } = latest.current
  const colours = coloursOf(element)
  const axis = { stroke: colours('ink'), font: `${FONT_PX}px ${getComputedStyle(element).fontFamily}` }
  return {
    ...{ width, height, ms: 1, padding: [8, 8, 0, 0], legend: { show: false } },
    series: [{}, ...series.map((one, nth) => seriesOf(kind, one, nth, colours))],
    scales: {
      x: { time: true, range: (_, min, max) => [min, Math.max(max, min) + latest.current.stepMs] },
      y: { range: (_, __, max) => [0, roundUp(max)] },
    },
    axes: [
      {
        ...axis,
        ...{ size: AXIS_HEIGHT, space: TICK_SPACE, gap: 4, grid: { show: false } },
        ticks: { stroke: colours('grid'), width: 1, size: 4 },
        values: (_, splits) =>
          splits.map((ms) => formatTick(ms, (splits[1] ?? ms + stepMs) - (splits[0] ?? ms))),
      },
      {
        ...axis,
        ...{ size: AXIS_WIDTH, space: 32, gap: 6, ticks: { show: false } },
        grid: { stroke: colours('grid'), width: 1 },
        values: (_, splits) => splits.map((value) => (value === 0 ? '0' : latest.current.format(value))),
      },
    ],
    cursor: {
      y: false,
      points: { show: kind === 'lines' },
      drag: { x: latest.current.onSelect !== undefined, y: false, setScale: false, dist: 6 },
    },
    hooks: {
      setCursor: [
        (plot) => {
          const { idx, left = -1 } = plot.cursor
          if (left < 0 || idx === null || idx === undefined) return point(undefined)
          point({
            index: intervalAt(plot, left, latest.current),
            side: left > plot.over.clientWidth / 2 ? 'left' : 'right',
          })
        },
      ],
      setSelect: [
        (plot) => {
          const { left, width: selected } = plot.select
          if (selected === 0) return
          const [since, until] = [left, left + selected].map((px) => plot.posToVal(px, 'x'))
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
          const step = latest.current.stepMs
          if (since !== undefined && until !== undefined)
            latest.current.onSelect?.(Math.floor(since / step) * step, Math.ceil(until / step) * step)
        },
      ],
    },
  }
}

/** The interval that contains the pointer; the nearest start may be that of the next one. */
function intervalAt(plot: UPlot, left: number, { times, stepMs }: ChartProps): number {
  const first = times[0] ?? 0
  const index = Math.floor((plot.posToVal(left, 'x') - first) / stepMs)
  return Math.min(times.length - 1, Math.max(0, index))
}

function seriesOf(
  kind: ChartProps['kind'],
  { tone }: Series,
  nth: number,
  colours: (name: string) => string,
): UPlot.Series {
  const colour = colours(`tone-${tone}`)
  if (kind === 'lines')
    return {
      ...{ stroke: colour, width: 1.5, spanGaps: true },
      // A line through few values is too short to be seen without them.
      points: {
        size: 5,
        fill: colour,
        width: 0,
        show: (plot, nthSeries) => hasFewValues(plot.data[nthSeries]),
      },
    }
  // A bar begins where the bar of the series below it ends.
  const starts = (plot: UPlot) => [
    ...(nth === 0 ? (plot.data[1] ?? []).map(() => 0) : (plot.data[nth] ?? [])),
  ]
  const bars = UPlot.paths.bars?.({
    ...{ align: 1, size: [0.86, 48] },
    disp: {
      y0: { unit: VALUES, values: starts },
      y1: { unit: VALUES, values: (plot) => [...(plot.data[nth + 1] ?? [])] },
    },
  })
  return {
    ...{ fill: colour, width: 0, points: { show: false } },
    ...(bars === undefined ? {} : { paths: bars }),
  }
}

const MAX_POINTS = 24

function hasFewValues(values: UPlot.AlignedData[number] = []): boolean {
  return [...values].filter((value) => value !== null && value !== undefined).length <= MAX_POINTS
}

/** The value of a colour token in the current theme; the canvas does not know tokens. */
function coloursOf(element: HTMLElement): (name: string) => string {
  return (name) => {
    const probe = document.createElement('i')
    probe.className = name === 'ink' || name === 'grid' ? `probe-${name}` : name
    element.append(probe)
    const { color } = getComputedStyle(probe)
    probe.remove()
    return color
  }
}

/** The smallest round number that is at least `max`, so that the highest value has a tick above it. */
function roundUp(max: number | null): number {
  if (max === null || max <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(max))
  const factor = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((each) => each * power >= max) ?? 10
  return factor * power
}
