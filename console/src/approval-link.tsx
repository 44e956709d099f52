import './styles/tokens.css'
import './styles/base.css'
import './styles/controls.css'
import './styles/fields.css'
import './styles/meaning.css'
import './styles/lists.css'
import './styles/code.css'
import './places/approvals/approvals.css'
import { LINK_WORDS } from './places/approvals/words.tsx'
import './approval-link.css'
import { type ReactNode, StrictMode, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { Announcer } from './app/announcer.tsx'
import { Icon, Mark } from './parts/icon.tsx'
import { visibleText } from './parts/visible-text.ts'
import type { WholeApproval } from './places/approvals/approval-data.ts'
import { ApprovalScreen } from './places/approvals/approval-screen.tsx'
import { DecideBar } from './places/approvals/decide-bar.tsx'

/*
 * The page that an approval link opens, and the decision page of `collet mcp`: the approval screen without a session. The server
 * embeds the data of one approval (`src/server/approvals/approval-page.ts`) and a plain page, which this script replaces. A
 * decision is a form post to the address that the server embedded.
 */

interface PageData {
  readonly approval: Omit<WholeApproval, 'obstacle' | 'link_may_decide'>
  readonly as: string
  readonly next:
    | { readonly kind: 'decide'; readonly approve: string; readonly reject: string }
    | { readonly kind: 'sign_in'; readonly url: string }
    | { readonly kind: 'command'; readonly commands: readonly string[] }
}

function ApprovalLink({ approval: embedded, as, next }: PageData): ReactNode {
  const approval = { ...embedded, obstacle: null, link_may_decide: false }
  return (
    <main className="link-page">
      <header className="row">
        <Mark />
        <h1 className="grow">{LINK_WORDS.title}</h1>
        <span className="soft clip">{LINK_WORDS.as(<b>{visibleText(as)}</b>)}</span>
      </header>
      <ApprovalScreen
        approval={approval}
        call={<code>{visibleText(approval.call_id === '' ? approval.record : approval.call_id)}</code>}
      >
        {(isSeen) =>
          next.kind === 'decide' ? (
            <Form approval={approval} isSeen={isSeen} addresses={next} />
          ) : (
            <div className="decide-bar">
              <p className="row grow decided">
                <Icon name="lock" size={14} />
                {next.kind === 'sign_in' ? LINK_WORDS.afterSignIn : LINK_WORDS.withCommand}
              </p>
              {next.kind === 'sign_in' ? (
                <a className="btn primary" href={next.url} rel="noreferrer">
                  {LINK_WORDS.signInAs(visibleText(as))}
                </a>
              ) : (
                <pre className="wrapped">{next.commands.join('\n')}</pre>
              )}
            </div>
          )
        }
      </ApprovalScreen>
      <Announcer />
    </main>
  )
}

interface FormProps {
  readonly approval: WholeApproval
  readonly isSeen: boolean
  readonly addresses: { readonly approve: string; readonly reject: string }
}

function Form({ approval, isSeen, addresses }: FormProps): ReactNode {
  const [reason, setReason] = useState('')
  const [pending, setPending] = useState<'approve' | 'reject'>()
  return (
    <DecideBar
      approval={approval}
      isSeen={isSeen}
      reason={reason}
      onReason={setReason}
      pending={pending}
      onDecide={(verb) => {
        setPending(verb)
        post(addresses[verb], reason.trim())
      }}
    />
  )
}

function post(action: string, reason: string): void {
  const form = document.createElement('form')
  const field = document.createElement('input')
  Object.assign(form, { method: 'post', action, hidden: true })
  Object.assign(field, { name: 'reason', value: reason })
  form.append(field)
  document.body.append(form)
  form.submit()
}

const root = document.getElementById('approval')
const json = root?.dataset.page
if (root !== null && json !== undefined) {
  // The server that embedded the data is from the same build as this page.
  const data: PageData = JSON.parse(json)
  createRoot(root).render(
    <StrictMode>
      <ApprovalLink {...data} />
    </StrictMode>,
  )
}
