import type { ReactNode } from 'react'
import { useEcho } from '../../app/echo.tsx'
import { Page } from '../../app/page.tsx'
import { Empty } from '../../parts/states.tsx'
import './calls.css'

export function CallsPage(): ReactNode {
  useEcho('collet calls')
  return (
    <Page title="Calls">
      <Empty title="The journal comes here" />
    </Page>
  )
}
