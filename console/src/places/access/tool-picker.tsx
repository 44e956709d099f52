import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { toolsQuery } from '../../api/tools.ts'
import { Button } from '../../parts/button.tsx'
import { Checkbox, Field, TextInput } from '../../parts/field.tsx'
import { Note } from '../../parts/meaning.tsx'
import type { KeyForm } from './key-form.ts'
import { isPicked, toggleTool, viewOf } from './key-tools.ts'
import { WORDS } from './words.tsx'

/*
 * Chooses tools for a new key, and shows how many tools the key will see. `key-dialogs.tsx` uses it.
 */

const MAX_ROWS = 8
const MAX_MISSING = 5

/** Lets a person choose tools for a new key, and shows how many tools the key will see. */
export function ToolPicker({ form, onChange }: PickerProps): ReactNode {
  const { data: tools } = useQuery(toolsQuery)
  const [text, setText] = useState('')
  if (tools === undefined) return null
  const found = text.trim() === '' ? [] : tools.find({ text, filters: {}, order: 'name' })
  const view = viewOf(tools.listing, form)
  const addScope = (scope: string): void => onChange({ scopes: `${form.scopes} ${scope}`.trim() })
  return (
    <>
      <Field label={WORDS.findToolsAdd} note={WORDS.optional} hint={WORDS.searchCatalogSelectTools}>
        {(control) => (
          <TextInput {...control} value={text} onChange={(event) => setText(event.currentTarget.value)} />
        )}
      </Field>
      {found.slice(0, MAX_ROWS).map(({ tool }) => (
        <Checkbox
          key={tool.id}
          label={`${tool.id}: ${[tool.tier, `approval ${tool.approval ?? 'never'}`].join(', ')}`}
          checked={isPicked(form.tools, tool)}
          onChange={() => onChange({ tools: toggleTool(form.tools, tool) })}
        />
      ))}
      {found.length > MAX_ROWS && <p className="soft">{WORDS.more2(found.length - MAX_ROWS)}</p>}
      {view !== undefined && (
        <p aria-live="polite">{WORDS.thisKeyWillSee(view.seen, view.seen === 1 ? 'tool' : 'tools')}</p>
      )}
      {view?.missing.slice(0, MAX_MISSING).map(({ tool, scope }) => (
        <Note key={`${tool} ${scope}`} tone="parked">
          {WORDS.needsScope(tool, scope)}
          <Button onClick={() => addScope(scope)}>{WORDS.add(scope)}</Button>
        </Note>
      ))}
    </>
  )
}

interface PickerProps {
  readonly form: KeyForm
  readonly onChange: (patch: Partial<KeyForm>) => void
}
