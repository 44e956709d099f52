import { type ReactNode, useState } from 'react'
import { CommandLine } from '../../app/page-command.tsx'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { DialogForm } from '../../parts/dialog.tsx'
import { Field, Select, TextField } from '../../parts/field.tsx'
import { Note } from '../../parts/meaning.tsx'
import { Empty } from '../../parts/states.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { changeSource, type Source, type SourceSettings } from './source-data.ts'
import { WORDS } from './words.tsx'

/*
 * The form for the settings of a source. `source-list.tsx` uses it. Only changed settings are sent.
 */

interface SettingsFormProps {
  readonly source: Source
  readonly onDone: () => void
  readonly onChanged: () => void
}

const APPROVALS = ['default', 'never', 'conditional', 'always'].map((value) => ({ value }))
const TIERS = ['default', 'pure', 'read', 'write'].map((value) => ({ value }))
const TRUST = [
  { value: 'nothing', label: WORDS.offAllItsToolsCount },
  { value: 'annotations', label: WORDS.onUseItsReadOnly },
]

/** Settings for the tools of a source. Its address is changed by adding it again. */
export function SettingsForm({ source, onDone, onChanged }: SettingsFormProps): ReactNode {
  const { settings, configured, key } = source
  const [form, setForm] = useState(() => formOf(settings))
  const [warnings, setWarnings] = useState<readonly string[]>([])
  const { isBusy, failure, run } = useAction(async () => {
    if (settings === undefined) return
    const { warnings: newWarnings } = await changeSource(key, changesOf(form, settings))
    onChanged()
    setWarnings(newWarnings)
    if (newWarnings.length === 0) onDone()
  })
  if (settings === undefined || configured === true)
    return (
      <>
        <Empty title={WORDS.thisSourceSetInConfig}>{WORDS.changeThereReloadConfig}</Empty>
        <CommandLine text="collet reload" />
        <p className="row end">
          <Button onClick={onDone}>{WORDS.close}</Button>
        </p>
      </>
    )
  const set = (change: Partial<Form>): void => setForm({ ...form, ...change })
  return (
    <DialogForm onSubmit={run}>
      {settings.trust !== undefined && (
        <Field label={WORDS.trustAnnotations}>
          {(control) => (
            <Select
              {...control}
              options={TRUST}
              value={form.trust}
              onChange={(event) => set({ trust: event.currentTarget.value })}
            />
          )}
        </Field>
      )}
      <TextField
        label={WORDS.onlyTheseTools}
        note={WORDS.commaSeparatedMatchesAnyCharacters}
        isMono
        value={form.include}
        onChange={(include) => set({ include })}
      />
      <TextField label={WORDS.exclude} isMono value={form.exclude} onChange={(exclude) => set({ exclude })} />
      <Field label={WORDS.approval} note={WORDS.allItsTools}>
        {(control) => (
          <Select
            {...control}
            options={APPROVALS}
            value={form.approval}
            onChange={(event) => set({ approval: event.currentTarget.value })}
          />
        )}
      </Field>
      <Field label={WORDS.safetyTier} note={WORDS.allItsTools}>
        {(control) => (
          <Select
            {...control}
            options={TIERS}
            value={form.tier}
            onChange={(event) => set({ tier: event.currentTarget.value })}
          />
        )}
      </Field>
      {warnings.map((warning) => (
        <Note key={warning} tone="parked">
          {visibleText(warning)}
        </Note>
      ))}
      {failure !== undefined && <Note tone="failed">{failure}</Note>}
      <p className="meta dim mono">{pageCommandOf(key, form, settings)}</p>
      <p className="row end">
        <Button onClick={onDone}>{warnings.length > 0 ? WORDS.close : WORDS.cancel}</Button>
        <Button kind="primary" submits writes isBusy={isBusy}>
          {WORDS.saveSettings}
        </Button>
      </p>
    </DialogForm>
  )
}

interface Form {
  readonly trust: string
  readonly include: string
  readonly exclude: string
  readonly approval: string
  readonly tier: string
}

function formOf(settings: SourceSettings | undefined): Form {
  return {
    trust: settings?.trust ?? 'nothing',
    include: (settings?.include ?? []).join(', '),
    exclude: (settings?.exclude ?? []).join(', '),
    approval: settings?.approval ?? 'default',
    tier: settings?.tier ?? 'default',
  }
}

function namesIn(text: string): readonly string[] {
  return text.split(',').flatMap((name) => (name.trim() === '' ? [] : [name.trim()]))
}

/** The changed settings as the server takes them; `null` removes one. */
function changesOf(form: Form, settings: SourceSettings): object {
  const before = formOf(settings)
  const [include, exclude] = [namesIn(form.include), namesIn(form.exclude)]
  const policy = {
    ...(form.approval === before.approval ? {} : { approval: orNull(form.approval) }),
    ...(form.tier === before.tier ? {} : { safetyTier: orNull(form.tier) }),
  }
  return {
    ...(form.trust === before.trust ? {} : { trust: form.trust }),
    ...(form.include === before.include ? {} : { include: include.length === 0 ? null : include }),
    ...(form.exclude === before.exclude ? {} : { exclude }),
    ...(Object.keys(policy).length === 0 ? {} : { policy }),
  }
}

function orNull(text: string): string | null {
  return text === 'default' ? null : text
}

/** The command that makes the same changes. */
function pageCommandOf(key: string, form: Form, settings: SourceSettings): string {
  const before = formOf(settings)
  const include = namesIn(form.include)
  const words = [
    ...(form.trust === before.trust ? [] : [`--trust ${form.trust}`]),
    ...(form.include === before.include
      ? []
      : (include.length === 0 ? ['*'] : include).map((name) => `--include '${name}'`)),
    ...(form.exclude === before.exclude ? [] : namesIn(form.exclude).map((name) => `--exclude '${name}'`)),
    ...(form.approval === before.approval ? [] : [`--approval ${form.approval}`]),
    ...(form.tier === before.tier ? [] : [`--tier ${form.tier}`]),
  ]
  return `collet sources set ${key}${words.length === 0 ? '' : ` ${words.join(' ')}`}`
}
