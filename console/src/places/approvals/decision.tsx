import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { ApiError } from '../../api/client.ts'
import { quoted } from '../../app/commands.ts'
import { usePageCommand } from '../../app/page-command.tsx'
import { Empty, Failed, Loading, messageOf } from '../../parts/states.tsx'
import { approvalQuery, useDecide, type WholeApproval } from './approval-data.ts'
import { ApprovalScreen } from './approval-screen.tsx'
import { DecideBar, useClosedText } from './decide-bar.tsx'
import { LinkButton } from './link-dialog.tsx'
import { WORDS } from './words.tsx'

/*
 * The approval screen in the console: reads one approval and decides it as the signed-in person. Used by `page.tsx`.
 */

export function Decision({ id }: { readonly id: string }): ReactNode {
  const found = useQuery(approvalQuery(id))
  if (found.data !== undefined) return <Found approval={found.data} />
  return (
    <section className="decide" aria-label={WORDS.decision}>
      {found.error === null ? (
        <Loading what={WORDS.approval} />
      ) : found.error instanceof ApiError && found.error.status === 404 ? (
        <Empty title={WORDS.thereNoSuchApproval} actions={<Back className="btn sm" />}>
          {WORDS.mayBelongAnotherTenantOr}
        </Empty>
      ) : (
        <Failed
          what={WORDS.approvalCouldNotBeRead}
          error={found.error}
          safe={WORDS.nothingWasDecided}
          onRetry={() => void found.refetch()}
        />
      )}
    </section>
  )
}

function Found({ approval }: { readonly approval: WholeApproval }): ReactNode {
  const [reason, setReason] = useState('')
  const decide = useDecide(approval.id)
  const { record, hides_something: hides } = approval
  usePageCommand(pageCommandOf(approval, useClosedText(approval) !== undefined, reason))
  const call = (
    <Link className="link mono" to="/calls/$record" params={{ record }}>
      {record}
    </Link>
  )
  return (
    <ApprovalScreen approval={approval} back={<Back className="back row link" />} call={call}>
      {(isSeen) => (
        <DecideBar
          approval={approval}
          isSeen={isSeen}
          reason={reason}
          onReason={setReason}
          pending={decide.isPending ? decide.variables?.verb : undefined}
          failure={decide.error === null ? undefined : messageOf(decide.error)}
          onDecide={(verb) =>
            decide.mutate({
              verb,
              ...(reason.trim() === '' ? {} : { reason: reason.trim() }),
              ...(verb === 'approve' && hides ? { accept_hidden: true } : {}),
            })
          }
        >
          <LinkButton approval={approval} />
        </DecideBar>
      )}
    </ApprovalScreen>
  )
}

function Back({ className }: { readonly className: string }): ReactNode {
  return (
    <Link className={className} to="/approvals" search={true}>
      {WORDS.allApprovals}
    </Link>
  )
}

/** The terminal command for the decision. */
export function pageCommandOf(
  { id, stale, hides_something: hides }: Pick<WholeApproval, 'id' | 'stale' | 'hides_something'>,
  isClosed: boolean,
  reason: string,
): string {
  if (isClosed) return `collet approvals show ${id}`
  const option = reason.trim() === '' ? '' : ` --reason ${quoted(reason.trim())}`
  if (stale) return `collet approvals reject ${id}${option}`
  return `collet approvals approve ${id}${option}${hides ? ' --accept-hidden' : ''}`
}
