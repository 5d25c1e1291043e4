// What is sent, in Slack's own types. Their `AnyBlock` admits any object with a type; here only known blocks count.
import type { HomeView, KnownBlock, ModalView } from '@slack/types'

// Slack takes it; the types do not know it yet.
interface DataVisualizationBlock {
  type: 'data_visualization'
  title: string
  chart: {
    type: 'bar'
    series: { name: string; data: { label: string; value: number }[] }[]
    axis_config: { categories: string[]; x_label?: string; y_label?: string }
  }
}

type Blocks = (KnownBlock | DataVisualizationBlock)[]

export interface Message {
  text: string
  blocks: Blocks
  attachments: { color: string; blocks: Blocks }[]
}

export type View = (Omit<ModalView, 'blocks'> | Omit<HomeView, 'blocks'>) & { blocks: KnownBlock[] }
