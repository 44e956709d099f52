import { Popover, PopoverDisclosure, PopoverProvider } from '@ariakit/react'
import { type ReactNode, useState } from 'react'
import { Button } from '../button.tsx'
import { TextField } from '../field.tsx'
import { Icon } from '../icon.tsx'
import {
  boundsOf,
  fixedRange,
  formatRange,
  PRESETS,
  readRange,
  type TimeRange,
  toLocalInput,
} from './time-range.ts'
import { words } from './words.ts'

/*
 * The control for the time range of a page: presets that end now, and a fixed range. All pages with a range use it. The range
 * itself is in the address (`app/time-range.ts`).
 */

export function RangePicker({ range, onChange }: RangePickerProps): ReactNode {
  const chosen = 'last' in range ? range.last : undefined
  const presets = chosen === undefined || isPreset(chosen) ? PRESETS : [chosen, ...PRESETS]
  return (
    <div className="range">
      <div className="seg" role="group" aria-label={words.timeRange}>
        {presets.map((preset) => (
          <button
            key={preset}
            type="button"
            aria-pressed={preset === chosen}
            title={words.last(preset)}
            onClick={() => {
              const next = readRange(preset)
              if (next !== undefined) onChange(next)
            }}
          >
            {preset}
          </button>
        ))}
      </div>
      <Custom range={range} onChange={onChange} />
    </div>
  )
}

interface RangePickerProps {
  readonly range: TimeRange
  readonly onChange: (range: TimeRange) => void
}

function isPreset(text: string): boolean {
  return PRESETS.some((preset) => preset === text)
}

/** A button that opens the form for a fixed range, and shows the range if it is fixed. */
function Custom({ range, onChange }: RangePickerProps): ReactNode {
  const [isOpen, setOpen] = useState(false)
  return (
    <PopoverProvider open={isOpen} setOpen={setOpen}>
      <PopoverDisclosure className="btn sm">
        <Icon name="clock" size={12} />
        <span className="num">{'last' in range ? words.custom : formatRange(range)}</span>
      </PopoverDisclosure>
      <Popover className="menu range-form" gutter={4} aria-label={words.timeRange} unmountOnHide portal>
        <RangeForm
          range={range}
          onChange={(next) => {
            onChange(next)
            setOpen(false)
          }}
        />
      </Popover>
    </PopoverProvider>
  )
}

function RangeForm({ range, onChange }: RangePickerProps): ReactNode {
  const shown = boundsOf(range)
  const [from, setFrom] = useState(() => toLocalInput(shown.sinceMs))
  const [until, setUntil] = useState(() => toLocalInput(shown.untilMs))
  const next = fixedRange(Date.parse(from), Date.parse(until))
  return (
    <form
      className="stack-3"
      onSubmit={(event) => {
        event.preventDefault()
        if (next !== undefined) onChange(next)
      }}
    >
      <TextField label={words.from} type="datetime-local" value={from} onChange={setFrom} />
      <TextField
        label={words.until}
        type="datetime-local"
        value={until}
        onChange={setUntil}
        error={next === undefined ? words.invalid : undefined}
      />
      <Button kind="primary" submits off={next === undefined ? words.invalid : undefined}>
        {words.apply}
      </Button>
    </form>
  )
}
