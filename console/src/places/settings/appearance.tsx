import type { ReactNode } from 'react'
import { Section } from '../../app/page.tsx'
import { setTheme, type Theme, theme } from '../../app/theme.ts'
import { setSingleKeys, singleKeys } from '../../keyboard.ts'
import { Checkbox } from '../../parts/field.tsx'
import { formatExact, setTimeZone, type TimeZone, timeZone } from '../../parts/format.ts'
import { Segment } from '../../parts/tabs.tsx'
import { useStore } from '../../store.ts'
import { WORDS } from './words.tsx'

/*
 * The choices that this browser keeps: theme, time zone and letter shortcuts. `page.tsx` uses it. Nothing is sent to the server.
 */

const THEMES: readonly { readonly value: Theme; readonly label: string }[] = [
  { value: 'system', label: WORDS.system },
  { value: 'light', label: WORDS.light },
  { value: 'dark', label: WORDS.dark },
]

const ZONES: readonly { readonly value: TimeZone; readonly label: string }[] = [
  { value: 'local', label: WORDS.local },
  { value: 'utc', label: 'UTC' },
]

export function Appearance({ onCommand }: { readonly onCommand: (command: string) => void }): ReactNode {
  const shownTheme = useStore(theme)
  const zone = useStore(timeZone)
  const isOn = useStore(singleKeys)
  return (
    <Section id="appearance" title={WORDS.appearance} onEnter={() => onCommand('')}>
      <dl className="kv">
        <dt>{WORDS.theme}</dt>
        <dd>
          <Segment label={WORDS.theme} value={shownTheme} options={THEMES} onChange={setTheme} />
        </dd>
        <dt>{WORDS.times}</dt>
        <dd className="row">
          <Segment label={WORDS.times} value={zone} options={ZONES} onChange={setTimeZone} />
          <span className="meta dim">{WORDS.now(formatExact(Date.now()))}</span>
        </dd>
        <dt>{WORDS.keyboard}</dt>
        <dd>
          <Checkbox
            label={WORDS.enableLetterShortcuts}
            checked={isOn}
            onChange={(event) => setSingleKeys(event.currentTarget.checked)}
          />
        </dd>
      </dl>
    </Section>
  )
}
