import type { ReactNode } from 'react'
import { Section } from '../../app/page.tsx'
import { setTheme, type Theme, theme } from '../../app/theme.ts'
import { setSingleKeys, singleKeys } from '../../keyboard.ts'
import { Checkbox } from '../../parts/field.tsx'
import { formatExact, setTimeZone, type TimeZone, timeZone } from '../../parts/format.ts'
import { Segment } from '../../parts/tabs.tsx'
import { useStore } from '../../store.ts'

/*
 * The choices that this browser keeps: theme, time zone and letter shortcuts. `page.tsx` uses it. Nothing is sent to the server.
 */

const THEMES: readonly { readonly value: Theme; readonly label: string }[] = [
  { value: 'system', label: 'System' },
  { value: 'light', label: 'Light' },
  { value: 'dark', label: 'Dark' },
]

const ZONES: readonly { readonly value: TimeZone; readonly label: string }[] = [
  { value: 'local', label: 'Local' },
  { value: 'utc', label: 'UTC' },
]

export function Appearance({ onCommand }: { readonly onCommand: (command: string) => void }): ReactNode {
  const shownTheme = useStore(theme)
  const zone = useStore(timeZone)
  const isOn = useStore(singleKeys)
  return (
    <Section id="appearance" title="Appearance" onEnter={() => onCommand('')}>
      <dl className="kv">
        <dt>Theme</dt>
        <dd>
          <Segment label="Theme" value={shownTheme} options={THEMES} onChange={setTheme} />
        </dd>
        <dt>Times</dt>
        <dd className="stack-2">
          <Segment label="Times" value={zone} options={ZONES} onChange={setTimeZone} />
          <span className="meta dim">Now: {formatExact(Date.now())}</span>
        </dd>
        <dt>Keyboard</dt>
        <dd>
          <Checkbox
            label="Enable letter shortcuts"
            checked={isOn}
            onChange={(event) => setSingleKeys(event.currentTarget.checked)}
          />
        </dd>
      </dl>
    </Section>
  )
}
