import type { ReactNode } from 'react'
import { useEcho } from '../../app/echo.tsx'
import { Page } from '../../app/page.tsx'
import { Empty } from '../../parts/states.tsx'
import './tool.css'

export function ToolPage(): ReactNode {
  useEcho('collet tools show')
  return (
    <Page title="Tool">
      <Empty title="The tool comes here" />
    </Page>
  )
}
