import { type ReactNode, useState } from 'react'
import { countsText } from '../../../../src/sources/kit/offer-counts.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { DialogForm } from '../../parts/dialog.tsx'
import { Checkbox, TextField } from '../../parts/field.tsx'
import { Note } from '../../parts/meaning.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import type { Found } from './probe.ts'
import { addSource, type Source } from './source-data.ts'
import { WORDS } from './words.tsx'

/*
 * An inspected source before it is added: its tools and its name. `add-source.tsx` uses it.
 */

interface FoundSourceProps {
  readonly found: Found
  readonly known: readonly Source[]
  readonly onAdded: (key: string) => void
  readonly onCancel: () => void
}

const MAX_SHOWN = 50

/** An inspected source before it is added: its tools, their annotations, and its name. */
export function FoundSource({ found, known, onAdded, onCancel }: FoundSourceProps): ReactNode {
  const [key, setKey] = useState(() => freeKey(found.key, known))
  const [isTrusted, setTrusted] = useState(false)
  const annotated = found.tools.filter(({ read_only: reads, idempotent }) => reads || idempotent).length
  const counts = {
    tools: found.tool_count,
    prompts: found.prompt_count,
    templates: found.template_count,
    skills: found.skill_count,
  }
  const { isBusy, failure, run } = useAction(async () => {
    await addSource(key.trim(), { ...found.options, ...(isTrusted ? { trust: 'annotations' } : {}) })
    onAdded(key.trim())
  })
  return (
    <DialogForm onSubmit={run}>
      <p>{WORDS.withWord(<b>{visibleText(found.what)}</b>, countsText(counts))}</p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable with the keyboard. */}
      <ul className="found" tabIndex={0} aria-label={WORDS.itsTools}>
        {found.tools.slice(0, MAX_SHOWN).map(({ name, description, read_only: reads }) => (
          <li key={name}>
            <span className="row">
              <b className="mono grow">{visibleText(name)}</b>
              {reads && <span className="meta dim">{WORDS.readOnly}</span>}
            </span>
            <span className="meta soft clip" dir="auto">
              {visibleText(description)}
            </span>
          </li>
        ))}
        {found.tool_count > MAX_SHOWN && <li className="dim">{WORDS.more2(found.tool_count - MAX_SHOWN)}</li>}
      </ul>
      {found.warnings.map((warning) => (
        <Note key={warning} tone="parked">
          {visibleText(warning)}
        </Note>
      ))}
      <TextField
        label={WORDS.name}
        note={WORDS.itsToolsAreNamedName}
        error={failure}
        isMono
        value={key}
        onChange={setKey}
      />
      {found.type === 'mcp' && annotated > 0 && (
        <Checkbox
          checked={isTrusted}
          onChange={(event) => setTrusted(event.currentTarget.checked)}
          label={WORDS.trustAnnotationsThemOtherwiseAll(annotated)}
        />
      )}
      <p className="row end">
        <Button onClick={onCancel}>{WORDS.cancel}</Button>
        <Button kind="primary" submits writes isBusy={isBusy}>
          {WORDS.addSource2}
        </Button>
      </p>
    </DialogForm>
  )
}

/** The name, or the name with the first free number. */
function freeKey(wanted: string, known: readonly Source[]): string {
  const taken = new Set(known.map(({ key }) => key))
  let key = wanted
  for (let number = 2; taken.has(key); number += 1) key = `${wanted}${number}`
  return key
}
