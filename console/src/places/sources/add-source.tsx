import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { importCommand, isCommand, looksLikeFile } from '../../app/commands.ts'
import { useSearchState } from '../../app/search-state.ts'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Field, TextInput } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Note } from '../../parts/meaning.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { FoundSource } from './found-source.tsx'
import { type ProbeState, useProbe } from './probe.ts'
import type { Source } from './source-data.ts'
import { WORDS } from './words.tsx'

/*
 * The dialog that inspects a source and then adds it. `page.tsx` uses it.
 */

interface AddSourceProps {
  readonly known: readonly Source[]
  readonly onAdded: () => void
}

/** Takes an address, a file or a command, inspects it, and then adds it. */
export function AddSource({ known, onAdded }: AddSourceProps): ReactNode {
  // The start page links here with the pasted text.
  const [{ add = '', focus }, changeAddress] = useSearchState()
  const field = useRef<HTMLInputElement>(null)
  // The command palette links here with the focus in the field.
  useEffect(() => {
    if (focus !== 'add') return
    void changeAddress({ focus: undefined }).then(() => field.current?.focus())
  }, [focus, changeAddress])
  const [target, setTarget] = useState(add)
  const [isOpen, setOpen] = useState(add !== '')
  const close = (): void => {
    setOpen(false)
    changeAddress({ add: undefined })
  }
  return (
    <form
      className="row add grow"
      onSubmit={(event) => {
        event.preventDefault()
        if (target.trim() !== '') setOpen(true)
      }}
    >
      <label className="vh" htmlFor="add">
        {WORDS.addSource}
      </label>
      <input
        ref={field}
        id="add"
        className="input mono"
        autoComplete="off"
        spellCheck={false}
        data-page-search=""
        placeholder={WORDS.pasteUrlFileOrCommand}
        value={target}
        onChange={(event) => setTarget(event.currentTarget.value)}
      />
      <Button
        submits
        writes
        icon="plus"
        off={target.trim() === '' ? WORDS.pasteUrlFileOrCommand2 : undefined}
      >
        {WORDS.addSource2}
      </Button>
      <Dialog title={WORDS.addSource} isOpen={isOpen} onClose={close}>
        <AddSourceSteps
          target={target.trim()}
          known={known}
          onAdded={() => {
            setTarget('')
            onAdded()
          }}
          onDone={close}
        />
      </Dialog>
    </form>
  )
}

interface AddSourceStepsProps extends AddSourceProps {
  readonly target: string
  readonly onDone: () => void
}

function AddSourceSteps({ target, known, onAdded, onDone }: AddSourceStepsProps): ReactNode {
  const probe = useProbe()
  const [apiKey, setApiKey] = useState('')
  const [added, setAdded] = useState<string>()
  const { state } = probe
  if (added !== undefined)
    return (
      <div className="dialog">
        <p className="row">
          <Icon name="check" size={14} />
          <span>{WORDS.wasAddedAgentsSeeIts(<b>{added}</b>)}</span>
        </p>
        <p className="row end">
          <Button onClick={onDone}>{WORDS.close}</Button>
          <Link className="btn primary" to="/tools" search={{ source: added }}>
            {WORDS.seeItsTools}
          </Link>
        </p>
      </div>
    )
  if (state.kind === 'found')
    return (
      <FoundSource
        found={state.found}
        known={known}
        onCancel={onDone}
        onAdded={(key) => {
          setAdded(key)
          onAdded()
        }}
      />
    )
  if (state.kind === 'inspecting') return <Inspecting state={state} onStop={probe.stop} />
  return (
    <div className="dialog">
      <code className="target">{visibleText(target)}</code>
      {isCommand(target) ? (
        <Note tone="parked">
          {WORDS.listItsToolsServerStarts(
            looksLikeFile(target) ? WORDS.thisTreatedAsProgramFiles : WORDS.thisCommand,
          )}
        </Note>
      ) : (
        <Field label={WORDS.keyOrToken} note={WORDS.ifRequiredStoredEncrypted}>
          {(control) => (
            <TextInput
              {...control}
              isMono
              type="password"
              value={apiKey}
              onChange={(event) => setApiKey(event.currentTarget.value)}
            />
          )}
        </Field>
      )}
      {state.kind === 'failed' && (
        <>
          <Note tone="failed">{WORDS.nothingWasAdded(visibleText(state.message))}</Note>
          <Lines lines={[...state.seen, ...state.lines]} />
        </>
      )}
      <p className="meta dim mono">{importCommand(target)}</p>
      <p className="row end">
        <Button onClick={onDone}>{WORDS.cancel}</Button>
        <Button
          kind={isCommand(target) ? 'danger' : 'primary'}
          writes
          onClick={() => void probe.start(target, apiKey)}
        >
          {isCommand(target) ? WORDS.startProgram : WORDS.inspect}
        </Button>
      </p>
    </div>
  )
}

interface InspectingProps {
  readonly state: Extract<ProbeState, { kind: 'inspecting' }>
  readonly onStop: () => void
}

function Inspecting({ state, onStop }: InspectingProps): ReactNode {
  return (
    <div className="dialog work" role="status">
      <p className="row">
        <Icon name="running" size={14} className="is-running spin" />
        <span className="grow" dir="auto">
          {visibleText(state.step)}
        </span>
        <span className="num soft">{state.seconds} s</span>
      </p>
      <Lines lines={state.lines} />
      <p className="row end">
        <Button onClick={onStop}>{WORDS.stop}</Button>
      </p>
    </div>
  )
}

/** The program's stderr, or what the inspection found. */
function Lines({ lines }: { readonly lines: readonly string[] }): ReactNode {
  if (lines.length === 0) return null
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable with the keyboard.
    <pre className="code lines" tabIndex={0} role="region" aria-label={WORDS.outputProgram}>
      {lines.map(visibleText).join('\n')}
    </pre>
  )
}
