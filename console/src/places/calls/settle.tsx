import { useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { requestJson } from '../../api/client.ts'
import { quoted } from '../../app/commands.ts'
import { usePageCommand } from '../../app/page-command.tsx'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { Choices, Field, TextArea, TextInput } from '../../parts/field.tsx'
import { formatClock } from '../../parts/format.ts'
import { Note } from '../../parts/meaning.tsx'
import { type CallDetails, useHoldsScope } from './api.ts'

/*
 * The form that records what happened to an ambiguous call. Used by `call-page.tsx`. The page changes only after the server's
 * answer.
 */

type Verdict = 'succeeded' | 'failed' | 'not-run'

const WORDS: Readonly<Record<Verdict, string>> = {
  succeeded: 'succeeded',
  failed: 'failed',
  'not-run': 'not run',
}

export function SettleForm({ call }: { readonly call: CallDetails }): ReactNode {
  const client = useQueryClient()
  const [as, setAs] = useState<Verdict>()
  const [value, setValue] = useState('')
  const [why, setWhy] = useState('')
  const [isAsking, setAsking] = useState(false)
  const [problems, setProblems] = useState<Problems>({})
  const maySettle = useHoldsScope('calls:settle')
  const hasValue = as === 'succeeded' && value.trim() !== ''
  usePageCommand(
    [
      `collet calls settle ${call.record} --as ${as ?? 'ENDING'}`,
      ...(hasValue ? [`--value ${quoted(value.trim())}`] : []),
      `--why ${quoted(why === '' ? 'WHY' : why)}`,
    ].join(' '),
  )
  const settle = async (): Promise<void> => {
    const body = { as, why: why.trim(), ...(hasValue ? { value: JSON.parse(value) } : {}) }
    await requestJson(`/admin/calls/${encodeURIComponent(call.record)}/settle`, { method: 'POST', body })
    await client.invalidateQueries({ queryKey: ['call', call.record] })
    void client.invalidateQueries({ queryKey: ['calls'] })
  }
  const submit = (): void => {
    const found = problemsIn({ as, why, value: hasValue ? value : '' })
    setProblems(found)
    if (Object.keys(found).length === 0) setAsking(true)
  }
  if (!maySettle)
    return (
      <section className="settle" aria-label="Settle this call">
        <Note icon="lock">Settling a call needs the scope calls:settle. Ask an operator.</Note>
      </section>
    )
  return (
    <form
      className="settle"
      aria-labelledby="settle-title"
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      <h2 id="settle-title">Settle this call</h2>
      <div className="check-it">
        <h3>Check first</h3>
        <ol>
          <li>
            Open the service that <b>{call.tool.replace(/@.*/, '')}</b> talks to.
          </li>
          <li>
            Look for what this call would have done there, at about{' '}
            <b className="num">{formatClock(call.created_at)}</b>.
          </li>
        </ol>
      </div>
      <Choices<Verdict>
        legend="Outcome"
        name="as"
        value={as}
        onChange={setAs}
        choices={[
          {
            value: 'succeeded',
            label: 'It succeeded',
            explanation: 'Callers get the value below, or that the result is unknown.',
          },
          { value: 'failed', label: 'It failed', explanation: 'Final. The call ID stays used.' },
          {
            value: 'not-run',
            label: 'It did not run',
            explanation: 'The call ID can be reused: the next request with it runs.',
          },
        ]}
      />
      {problems.as !== undefined && <Note tone="failed">{problems.as}</Note>}
      {as === 'succeeded' && (
        <Field
          label="Value"
          note="JSON, optional"
          {...(problems.value === undefined ? {} : { error: problems.value })}
        >
          {(control) => (
            <TextArea
              {...control}
              isMono
              rows={2}
              placeholder='{"id": "…"}'
              value={value}
              onChange={(event) => setValue(event.currentTarget.value)}
            />
          )}
        </Field>
      )}
      <Field
        label="Reason"
        note="recorded in the journal"
        {...(problems.why === undefined ? {} : { error: problems.why })}
      >
        {(control) => (
          <TextInput
            {...control}
            value={why}
            maxLength={1_000}
            onChange={(event) => setWhy(event.currentTarget.value)}
          />
        )}
      </Field>
      <div className="row">
        <Button kind="primary" submits writes>
          {as === undefined ? 'Settle…' : `Settle as ${WORDS[as]}…`}
        </Button>
        <span className="meta dim">This cannot be changed later.</span>
      </div>
      <ConfirmDialog
        title={`Settle as ${WORDS[as ?? 'failed']}?`}
        verb={`Settle as ${WORDS[as ?? 'failed']}`}
        keep="Go back"
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        onConfirm={settle}
      >
        <p>
          {as === undefined ? '' : EFFECTS[as]} Your name and reason are recorded in the journal. This cannot
          be undone.
        </p>
      </ConfirmDialog>
    </form>
  )
}

const EFFECTS: Readonly<Record<Verdict, string>> = {
  succeeded: 'Requests with this call ID return this result.',
  failed: 'Requests with this call ID return this error.',
  'not-run': 'The next request with this call ID runs the tool.',
}

interface Problems {
  readonly as?: string
  readonly why?: string
  readonly value?: string
}

function problemsIn({
  as,
  why,
  value,
}: {
  readonly as: Verdict | undefined
  readonly why: string
  readonly value: string
}): Problems {
  return {
    ...(as === undefined ? { as: 'Choose an outcome.' } : {}),
    ...(why.trim() === '' ? { why: 'Enter a reason. It is recorded in the journal.' } : {}),
    ...(value === '' || isJson(value) ? {} : { value: 'Not valid JSON. Text needs quotes: "sent".' }),
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
