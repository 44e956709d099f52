import type { ReactNode } from 'react'
import { useEcho } from '../../app/echo.tsx'
import { Page } from '../../app/page.tsx'
import { Empty } from '../../parts/states.tsx'
import './approvals.css'

export function ApprovalsPage(): ReactNode {
  useEcho('collet approvals')
  return (
    <Page title="Approvals">
      <Empty title="What waits comes here" />
    </Page>
  )
}
