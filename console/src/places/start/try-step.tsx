import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect, useState } from 'react'
import { quoted } from '../../app/commands.ts'
import { CHOOSE_CALLER, RunAs, useRunAs } from '../../app/person/run-as.tsx'
import { Button } from '../../parts/button.tsx'
import { Field, TextInput } from '../../parts/field.tsx'
import { formatDuration } from '../../parts/format.ts'
import { StateMark, ToolName } from '../../parts/meaning.tsx'
import { Failed, Loading } from '../../parts/states.tsx'
import { type FirstTool, firstToolQuery, inputOf } from './first-tool.ts'
import { type Outcome, useTryCall } from './try-call.ts'
import { WORDS } from './words.tsx'

/*
 * The step that calls a tool on the start page. `page.tsx` uses it.
 */

interface TryStepProps {
  /** Whether this step is done, so that a later step is the current one. */
  readonly isDone: boolean
  /** Called with the command that does the same. */
  readonly onCommand: (command: string) => void
  readonly onDone: () => void
}

/** Calls a tool on this page. */
export function TryStep({ isDone, onCommand, onDone }: TryStepProps): ReactNode {
  const found = useQuery(firstToolQuery)
  if (found.error !== null)
    return (
      <Failed what={WORDS.toolsCouldNotBeRead} error={found.error} onRetry={() => void found.refetch()} />
    )
  if (found.data === undefined) return <Loading what={WORDS.tool} rows={2} />
  const { first, count } = found.data
  if (first === null)
    return (
      <p className="soft">
        {count === 0 ? WORDS.thereAreNoToolsHere : WORDS.chooseToolIn}
        {count > 0 &&
          WORDS.runOnItsPage(
            <Link className="link" to="/tools">
              {WORDS.tools}
            </Link>,
          )}
      </p>
    )
  return <TryTool {...first} isDone={isDone} onCommand={onCommand} onDone={onDone} />
}

function TryTool({ tool, fields, isDone, onCommand, onDone }: FirstTool & TryStepProps): ReactNode {
  const [values, setValues] = useState<Readonly<Record<string, string>>>({})
  const { isRunning, outcome, run } = useTryCall()
  const runAs = useRunAs()
  const off = runAs.isNeeded && runAs.caller === undefined ? CHOOSE_CALLER : undefined
  const input = inputOf(fields, values)
  const command = `collet call ${tool.base} ${quoted(JSON.stringify(input))}`
  useEffect(() => onCommand(command), [command, onCommand])
  const isAnswered = outcome !== undefined
  useEffect(() => {
    if (isAnswered) onDone()
  }, [isAnswered, onDone])
  return (
    <>
      <p className="soft">
        <Link className="tool-name-link" to="/tools/$id" params={{ id: tool.base }}>
          <ToolName name={tool.base} />
        </Link>{' '}
        {tool.policy.tier === 'pure' ? WORDS.onlyComputes : WORDS.onlyReads}.{' '}
        {fields.length === 0 ? WORDS.run : WORDS.changeValueRun}
      </p>
      <RunAs isBusy={isRunning} />
      <form
        className="mini"
        onSubmit={(event) => {
          event.preventDefault()
          if (off === undefined) void run(tool.base, input)
        }}
      >
        {fields.map(({ name, kind, example }) => (
          <Field key={name} label={name}>
            {(control) => (
              <TextInput
                {...control}
                isMono
                inputMode={kind === 'number' ? 'decimal' : 'text'}
                value={values[name] ?? example}
                onChange={(event) => setValues({ ...values, [name]: event.currentTarget.value })}
              />
            )}
          </Field>
        ))}
        <Button submits writes icon="play" isBusy={isRunning} off={off} kind={isDone ? 'plain' : 'primary'}>
          {isAnswered ? WORDS.runAgain : WORDS.run2}
        </Button>
        {outcome !== undefined && <Answer outcome={outcome} />}
      </form>
    </>
  )
}

const MAX_VALUE_LENGTH = 40

function Answer({ outcome: { isGood, text, tookMs, record } }: { readonly outcome: Outcome }): ReactNode {
  return (
    <output className="mini-out">
      <b className={isGood ? 'num clip' : 'clip said'} title={text}>
        {text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH)}…` : text}
      </b>
      <span className="row meta">
        <StateMark state={isGood ? 'succeeded' : 'failed'} label={isGood ? WORDS.succeeded : WORDS.failed} />
        <span className="dim num">{formatDuration(tookMs)}</span>
        {record !== undefined && (
          <Link className="link" to="/calls/$record" params={{ record }}>
            {WORDS.seeInCalls}
          </Link>
        )}
      </span>
    </output>
  )
}
