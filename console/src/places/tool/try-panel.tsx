import { useQueryClient } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, Suspense, useEffect, useMemo, useState } from 'react'
import { quoted } from '../../app/commands.ts'
import { usePageCommand } from '../../app/page-command.tsx'
import { usePassedInput } from '../../app/passed-input.ts'
import { CHOOSE_CALLER, RunAs, useRunAs } from '../../app/person/run-as.tsx'
import { useSearchState } from '../../app/search-state.ts'
import { useKey } from '../../keyboard.ts'
import { Button, CopyButton } from '../../parts/button.tsx'
import { toJson } from '../../parts/code.tsx'
import { JsonEditor } from '../../parts/editor/json-editor.tsx'
import { Field, Select, TextInput } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { lazyPart } from '../../parts/lazy-part.tsx'
import { Note } from '../../parts/meaning.tsx'
import { Loading } from '../../parts/states.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { useCall } from './call/use-call.ts'
import { CallOutcome } from './call-outcome.tsx'
import { CopyAs } from './copy-as.tsx'
import { CredentialUsed } from './credential-used.tsx'
import { fieldErrorsOf } from './field-errors.ts'
import { kindOfInput } from './schema-words.ts'
import { isRecord, type ToolDetails, usageOf } from './tool-data.ts'
import { WORDS } from './words.tsx'

/*
 * Calls the tool: the form and the JSON beside it are two views of one input. `page.tsx` uses it.
 */

/** The form library is loaded only when a tool is tried. */
const InputForm = lazyPart(async () => (await import('./form/input-form.tsx')).InputForm)

/** Calls the tool: the form and the JSON beside it are two views of one input. */
export function TryPanel({ tool }: { readonly tool: ToolDetails }): ReactNode {
  const draft = useDraft(tool)
  const call = useCall(tool)
  const [userId, setUserId] = useState('')
  const kind = kindOfInput(tool.input_schema)
  const needsUser = tool.requirements.some(({ kind }) => kind === 'user')
  const hasEffects = tool.policy.tier === 'write' || tool.policy.tier === 'exec'
  const isPending = call.phase.at === 'running' || call.phase.at === 'parked'
  const runAs = useRunAs()
  const lacksCaller = runAs.isNeeded && runAs.caller === undefined
  const off = lacksCaller ? CHOOSE_CALLER : draft.problem === undefined ? undefined : WORDS.inputNotValidJson
  const sent = { tool, input: draft.input, userId: needsUser && userId !== '' ? userId : undefined }
  const run = (): void => {
    if (off === undefined && !isPending) call.run(sent)
  }
  useKey('mod+enter', run)
  const answer = call.phase.at === 'answered' ? call.phase.answer : undefined
  const errors = useMemo(() => fieldErrorsOf(answer), [answer])
  const queries = useQueryClient()
  useEffect(() => {
    if (answer !== undefined) void queries.invalidateQueries({ queryKey: usageOf(tool.base) })
  }, [answer, queries, tool.base])
  usePageCommand(`collet call ${tool.id} ${quoted(JSON.stringify(draft.input))}`)
  return (
    <section className="try" aria-labelledby="try-it" id="try">
      <form
        className="try-form"
        // The server reports invalid values beside the field; the browser's validation would only refuse to send.
        noValidate
        onSubmit={(event: FormEvent) => {
          event.preventDefault()
          run()
        }}
      >
        <div className="try-head">
          <h2 id="try-it" className="grow">
            {WORDS.try}
          </h2>
          <Examples tool={tool} onChoose={draft.setInput} />
          <Button submits writes kind="primary" icon="play" isBusy={isPending} off={off}>
            {hasEffects ? WORDS.runForReal : WORDS.run2}
            <kbd>{RUN_KEYS}</kbd>
          </Button>
        </div>
        {hasEffects && <Effects tool={tool} />}
        <RunAs isBusy={isPending} />
        <div className="try-cols">
          <div className="stack-3">
            {kind === 'fields' ? (
              <Suspense fallback={<Loading what={WORDS.form} rows={3} />}>
                <InputForm
                  schema={tool.input_schema}
                  value={draft.input}
                  onChange={draft.setInput}
                  errors={errors}
                />
              </Suspense>
            ) : (
              <p className="soft">{NO_FIELDS_TEXT[kind]}</p>
            )}
            {needsUser && (
              <Field label={WORDS.userId} note={WORDS.userCallFor}>
                {(control) => (
                  <TextInput
                    {...control}
                    isMono
                    value={userId}
                    onChange={(event) => setUserId(event.currentTarget.value)}
                  />
                )}
              </Field>
            )}
            <CredentialUsed tool={tool} />
          </div>
          <JsonInput draft={draft} schema={tool.input_schema} />
        </div>
      </form>
      <CallOutcome
        tool={tool}
        control={call}
        onContinue={() => {
          if (off === undefined) call.continueCall(sent)
        }}
      />
      <CopyAs {...sent} />
    </section>
  )
}

const RUN_KEYS = /Mac|iP(hone|ad|od)/.test(navigator.userAgent) ? '⌘↵' : WORDS.ctrl
const NO_FIELDS_TEXT = {
  anything: WORDS.thisToolDeclaresNoParameters,
  nothing: WORDS.thisToolTakesNoInput,
}

function Effects({ tool }: { readonly tool: ToolDetails }): ReactNode {
  const { tier, approval } = tool.policy
  const does = tier === 'exec' ? WORDS.runsProgram : WORDS.changesSomething
  if (approval === 'always') return <Note>{WORDS.callWaitsForApprovalLike(does)}</Note>
  return <Note>{WORDS.reallyOneCallRunsOnce(does)}</Note>
}

function Examples({ tool, onChoose }: ExamplesProps): ReactNode {
  const [chosen, setChosen] = useState('0')
  if (tool.examples.length === 0) return null
  return (
    <Select
      isBare
      aria-label={WORDS.example}
      value={chosen}
      options={tool.examples.map((example, index) => ({
        value: String(index),
        label: visibleText(WORDS.example2(nameOfExample(example))),
      }))}
      onChange={(event) => {
        setChosen(event.currentTarget.value)
        onChoose(tool.examples[Number(event.currentTarget.value)])
      }}
    />
  )
}

interface ExamplesProps {
  readonly tool: ToolDetails
  readonly onChoose: (input: unknown) => void
}

const MAX_NAME_LENGTH = 28

/** A name for an example: its first value, shortened. */
function nameOfExample(example: unknown): string {
  const first = isRecord(example) ? Object.values(example)[0] : example
  const text = typeof first === 'string' ? first : (JSON.stringify(first) ?? 'nothing')
  return text.length > MAX_NAME_LENGTH ? `${text.slice(0, MAX_NAME_LENGTH)}…` : text
}

interface Draft {
  readonly input: unknown
  readonly text: string
  /** Why the text is not a valid input. */
  readonly problem: string | undefined
  setInput(input: unknown): void
  setText(text: string): void
}

/** One input, as a value and as text. While the text is not JSON, the form shows the last valid value. */
function useDraft(tool: ToolDetails): Draft {
  const [{ input: given }] = useSearchState()
  const handedInput = usePassedInput()
  const [first] = useState<unknown>(() => (handedInput === undefined ? firstInput(tool, given) : handedInput))
  const [input, setInput] = useState(first)
  const [text, setText] = useState(() => toJson(first))
  const [problem, setProblem] = useState<string>()
  return {
    input,
    text,
    problem,
    setInput(next) {
      setInput(next)
      setText(toJson(next))
      setProblem(undefined)
    },
    setText(next) {
      setText(next)
      try {
        setInput(JSON.parse(next))
        setProblem(undefined)
      } catch (error) {
        setProblem(error instanceof Error ? error.message : WORDS.notValidJson)
      }
    },
  }
}

/** The input in the address, the first example, or an empty object. */
function firstInput(tool: ToolDetails, given: string | undefined): unknown {
  try {
    if (given !== undefined) return JSON.parse(given)
  } catch {
    // The address is truncated.
  }
  return tool.examples[0] ?? {}
}

interface JsonInputProps {
  readonly draft: Draft
  readonly schema: ToolDetails['input_schema']
}

function JsonInput({ draft, schema }: JsonInputProps): ReactNode {
  const check = useInputCheck(draft, schema)
  return (
    <div className="code json-edit">
      <div className="code-head">
        <span className="grow">{WORDS.inputAsJson}</span>
        <span className={check.isGood ? 'row is-succeeded' : 'row is-parked'} title={check.why}>
          <Icon name={check.isGood ? 'succeeded' : 'alert'} size={14} />
          <span>{check.word}</span>
        </span>
        <CopyButton text={draft.text} label={WORDS.copyInput} />
      </div>
      <JsonEditor
        label={WORDS.inputAsJson}
        text={draft.text}
        schema={schema}
        problem={check.why}
        onChange={draft.setText}
      />
      {check.why !== undefined && <p className="code-cut meta">{check.why}</p>}
    </div>
  )
}

interface InputCheck {
  readonly isGood: boolean
  readonly word: string
  readonly why?: string
}

/** The page's check of the input. The server's check is authoritative. */
function useInputCheck({ input, problem }: Draft, schema: ToolDetails['input_schema']): InputCheck {
  const [check, setCheck] = useState<typeof import('./form/form-check.ts').checkInput>()
  useEffect(() => {
    let isMounted = true
    import('./form/form-check.ts').then(
      ({ checkInput }) => {
        if (isMounted) setCheck(() => checkInput)
      },
      // The server checks it too.
      () => undefined,
    )
    return () => {
      isMounted = false
    }
  }, [])
  const errors = useMemo(() => check?.(schema, input), [check, schema, input])
  if (problem !== undefined) return { isGood: false, word: WORDS.notJson, why: problem }
  if (errors === undefined) return { isGood: true, word: 'JSON' }
  const [first] = errors
  if (first === undefined) return { isGood: true, word: 'valid' }
  const where = first.path.length === 0 ? '' : `${first.path.join('.')}: `
  return { isGood: false, word: 'invalid', why: `${where}${first.message}` }
}
